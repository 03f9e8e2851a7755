//! A node that is cut off stops what another node may be running by now: containers that may move (`leeway.migrate=true`) and that
//! a master placed.
//!
//! Docker is not asked. It may be what has failed, and the containers of a daemon that crashed run on; so their processes are found
//! by their cgroups, and ended by the kernel.

use super::client::KEEP_ALIVE;
use super::contact::{CUT_OFF_AFTER, Contact};
use super::stopped::{STOPPED_MAX, StoppedFile};
use crate::commands::Command;
use crate::facts::{Teller, Told, cgroup};
use crate::owner::Owner;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashMap;
use std::fs::DirEntry;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use wire::cluster::PLACEMENT;
use wire::labels::MIGRATE;
use wire::link::Stopped;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The containers that may move, by id, and their placements; nothing where Docker has not said yet which there are.
pub(crate) type Movable = Option<HashMap<String, String>>;

/// Those that are here.
pub(crate) fn movable(owner: &Owner) -> Movable {
    let may_move = owner.registry.all().filter_map(|known| {
        let placement = known.labels.get(PLACEMENT)?;
        let may = known.labels.get(MIGRATE).is_some_and(|may| may == "true");
        may.then(|| (known.id.clone(), placement.clone()))
    });
    owner.registry.listed.then(|| may_move.collect())
}

/// Stops what this node lost the right to run, for as long as it is cut off. Masters hear of it by `told`.
pub(super) async fn keep(
    contact: Arc<Contact>,
    teller: Teller,
    file: StoppedFile,
    told: watch::Sender<Stopped>,
) {
    let mut said = false;
    // Those that were told to die, and were not seen gone yet.
    let mut dying = HashMap::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let is_cut_off = contact.is_cut_off(Instant::now());
        let ended = if is_cut_off { end_all(&teller, file.clone()).await } else { Some(Ended::default()) };
        if is_cut_off && !said {
            let seconds = (CUT_OFF_AFTER + 2 * KEEP_ALIVE).as_secs();
            eprintln!(
                "warning: no master let this node run on for up to {seconds} s: what may move is stopped here"
            );
        }
        said = is_cut_off;
        let Some(Ended { running, failed }) = ended else { continue };
        if let Some(error) = &failed {
            eprintln!("warning: what may move could not all be stopped: {error}");
        }
        for id in running.keys().filter(|id| !dying.contains_key(*id)) {
            eprintln!("notice: container {id} is stopped: this node is cut off, and it may run elsewhere");
        }
        let before = std::mem::replace(&mut dying, running);
        let gone =
            before.into_iter().filter(|(id, _)| !dying.contains_key(id)).map(|(_, placement)| placement);
        let nothing_runs = is_cut_off && dying.is_empty() && failed.is_none();
        told.send_if_modified(|told| note(told, gone, nothing_runs));
    }
}

/// Those containers that had processes, which were told to die, and why some were not.
#[derive(Default)]
struct Ended {
    running: HashMap<String, String>,
    failed: Option<io::Error>,
}

/// Ends the processes of containers that may move; nothing where nobody can tell which these are.
async fn end_all(teller: &Teller, file: StoppedFile) -> Option<Ended> {
    let (to, answer) = oneshot::channel();
    teller.tell_soon(Told::Command(Command::Movable(to))).await;
    let movable = answer.await.ok()??;
    // The whole of /proc is read: not on the thread that everybody's messages come by.
    let ended = tokio::task::spawn_blocking(move || end(&movable, &file)).await.ok()?;
    for id in ended.running.keys() {
        // Whoever is frozen must be let go to die.
        teller.tell_soon(Told::Stopping(id.clone())).await;
    }
    Some(ended)
}

/// One that cannot be ended does not keep the others alive, but nobody may say then that nothing runs.
fn end(movable: &HashMap<String, String>, file: &StoppedFile) -> Ended {
    let mut ended = Ended::default();
    let found = all(movable, &mut ended.failed);
    if let Err(error) = file.add(found.iter().map(|one| one.placement.as_str())) {
        eprintln!("warning: what is stopped could not be written down: {error}");
    }
    for one in found {
        match pidfd_send_signal(one.process, Signal::KILL) {
            Ok(()) => drop(ended.running.insert(one.id, one.placement)),
            Err(Errno::SRCH) => {}
            Err(error) => ended.failed = Some(error.into()),
        }
    }
    ended
}

/// All processes of these containers, as far as they can be seen.
fn all(movable: &HashMap<String, String>, failed: &mut Option<io::Error>) -> Vec<Found> {
    let mut found = Vec::new();
    let mut look = |entry: io::Result<DirEntry>| {
        let pid = entry?.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        found.extend(pid.map(|pid| find(pid, movable)).transpose()?.flatten());
        Ok(())
    };
    let entries = match std::fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => {
            *failed = Some(error);
            return found;
        }
    };
    for entry in entries {
        match look(entry) {
            Err(error) if !is_gone(&error) => *failed = Some(error),
            _ => {}
        }
    }
    found
}

/// A process that this node must not run.
#[derive(Debug)]
struct Found {
    process: OwnedFd,
    /// Its container.
    id: String,
    placement: String,
}

/// What a process is, if it is any of our business.
fn find(pid: Pid, movable: &HashMap<String, String>) -> io::Result<Option<Found>> {
    let home = || {
        let text = std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero()))?;
        let found = cgroup::container_ids(&text).into_iter().find_map(|id| movable.get_key_value(&id));
        Ok::<_, io::Error>(found)
    };
    if home()?.is_none() {
        return Ok(None);
    }
    // A pid may go to another process at any time; what is opened stays what it is.
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let Some((id, placement)) = home()? else { return Ok(None) };
    Ok(Some(Found { process, id: id.clone(), placement: placement.clone() }))
}

/// A process that ended meanwhile.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Takes in whose containers are gone, and whether any is left. True if that is news.
fn note(told: &mut Stopped, gone: impl Iterator<Item = String>, nothing_runs: bool) -> bool {
    let before = told.clone();
    told.placements.extend(gone);
    let surplus = told.placements.len().saturating_sub(STOPPED_MAX);
    told.placements.drain(..surplus);
    told.nothing_runs = nothing_runs;
    *told != before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_hear_what_was_stopped_and_when_nothing_is_left() {
        let mut told = Stopped::default();
        let gone = |placements: &[&str]| placements.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        assert!(!note(&mut told, gone(&[]).into_iter(), false), "they still die");
        assert!(note(&mut told, gone(&["one", "two"]).into_iter(), true));
        assert!(!note(&mut told, gone(&[]).into_iter(), true));
        assert!(note(&mut told, gone(&[]).into_iter(), false), "it is not cut off any more");
        assert_eq!(told.placements, ["one", "two"], "what was stopped is told all the same");
        let many: Vec<String> = (0..STOPPED_MAX).map(|number| number.to_string()).collect();
        note(&mut told, many.into_iter(), false);
        assert_eq!((told.placements.len(), told.placements[0].as_str()), (STOPPED_MAX, "0"));
    }

    #[test]
    fn whoever_is_in_no_such_container_is_left_alone_and_one_that_is_gone_is_no_failure() {
        let movable = HashMap::from([("a".repeat(64), "placement".to_owned())]);
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        assert!(find(own, &movable).unwrap().is_none());
        assert!(is_gone(&find(Pid::from_raw(i32::MAX).unwrap(), &movable).unwrap_err()));
    }
}
