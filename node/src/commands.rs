//! What somebody wants done: another policy, or everything let go.

use crate::clock;
use crate::owner::Owner;
use sched::task::Grip;
use sched::{ContainerId, GpuId, Process};
use tokio::sync::oneshot::Sender;
use wire::agent::{PolicyLine, ReleasedLine};

/// What to do, and where the answer goes: a sentence where it cannot be done.
#[derive(Debug)]
pub enum Command {
    /// Another policy, for one GPU or for all.
    SetPolicy(String, Option<u16>, Sender<Result<PolicyLine, String>>),
    /// One container is to run, or all that are held.
    Release(Option<String>, Sender<Result<ReleasedLine, String>>),
    /// A master asks whether a container may come.
    Admit(wire::link::Offer, Sender<wire::link::Answer>),
    /// The container of this placement does not come after all.
    Withdraw(String),
    /// Which containers may move.
    Movable(Sender<crate::link::Movable>),
}

/// Does it. Somebody who has gone away meanwhile needs no answer.
pub(crate) fn carry_out(owner: &mut Owner, command: Command) {
    match command {
        Command::SetPolicy(name, gpu, to) => drop(to.send(set_policy(owner, &name, gpu))),
        Command::Admit(offer, to) => drop(to.send(crate::link::consider(owner, offer))),
        Command::Withdraw(placement) => crate::link::withdraw(owner, &placement),
        Command::Movable(to) => drop(to.send(crate::link::movable(owner))),
        Command::Release(wanted, to) => drop(to.send(release(owner, wanted.as_deref()))),
    }
}

fn set_policy(owner: &mut Owner, name: &str, gpu: Option<u16>) -> Result<PolicyLine, String> {
    let Some(policy) = sched::policy::by_name(name) else {
        let names = sched::policy::NAMES.join(", ");
        return Err(format!("'{name}' is not a policy: accepted are {names}"));
    };
    if let (Some(why), true) = (owner.cannot_hold, policy.acts()) {
        return Err(format!("policy {name} holds tasks, and nothing can be held here: {why}"));
    }
    match gpu.map(GpuId) {
        None => owner.run_policy(name, None),
        Some(gpu) if owner.gpus.contains_key(&gpu) => owner.run_policy(name, Some(gpu)),
        Some(gpu) => {
            let known: Vec<String> = owner.gpus.keys().map(|gpu| gpu.0.to_string()).collect();
            return Err(format!("there is no GPU {}: accepted are {}", gpu.0, known.join(", ")));
        }
    }
    Ok(crate::views::policy(owner))
}

/// Whoever is held for all we know. Whom the kernel stopped for urgent work stands, though nobody here has held it.
pub(crate) fn who_stands(owner: &Owner) -> Vec<(ContainerId, Process, GpuId)> {
    let in_hand = owner.scheduler.tracker().tasks().filter(|task| task.grip != Grip::Free);
    in_hand.filter_map(|task| Some((task.container?, task.process, task.gpu))).collect()
}

/// Lets go, and leaves alone until the container has no task any more: a policy would hold it again at once.
fn release(owner: &mut Owner, wanted: Option<&str>) -> Result<ReleasedLine, String> {
    let chosen: Vec<ContainerId> = match wanted {
        None => owner.registry.all().map(|known| known.number).collect(),
        Some(wanted) => vec![owner.registry.find(wanted)?],
    };
    let stand = who_stands(owner);
    let stands = |number: ContainerId| stand.iter().any(|(container, ..)| *container == number);
    let held = chosen.iter().filter(|number| owner.actuator.holds(**number) || stands(**number));
    let names = held.filter_map(|number| Some(owner.registry.get(*number)?.name.clone())).collect();
    chosen.iter().for_each(|number| owner.let_in(*number));
    // From before: who is let go may stand again at once, and that must not look older.
    let now = clock::now();
    let happened = owner.actuator.leave_alone(|number| chosen.contains(&number), &stand);
    owner.note(now, happened);
    owner.probed.stale = true;
    Ok(ReleasedLine { released: names })
}
