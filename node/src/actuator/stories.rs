//! Stories about holding, with real processes in real cgroups.

use super::freezer::Freezer;
use super::swapper::{SwapOrder, What};
use super::*;
use crate::facts::{News, Told, process};
use sched::{Instant, Reason, TaskId};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const GPU: GpuId = GpuId(0);
const BOX: ContainerId = ContainerId(1);

/// A cgroup with sleeping processes, and an actuator that may hold them.
struct Scene {
    actuator: Actuator,
    news: Receiver<News>,
    run_dir: tempfile::TempDir,
    folder: PathBuf,
    path: String,
    children: Vec<Child>,
    requests: u64,
}

impl Scene {
    fn new(name: &str) -> Option<Self> {
        freezer::works_here().ok()?;
        let root = Path::new("/sys/fs/cgroup");
        let root = if root.join("freezer").is_dir() { root.join("freezer") } else { root.to_owned() };
        let path = format!("/leeway-test-{name}-{}", std::process::id());
        let folder = root.join(path.trim_start_matches('/'));
        std::fs::create_dir(&folder).unwrap();
        let (sender, news) = sync_channel(64);
        let run_dir = tempfile::tempdir().unwrap();
        let connect: Connect = Arc::new(|| Err("no Docker here".to_owned()));
        let mut actuator = Actuator::start(run_dir.path(), &connect, &Teller(sender), false, None).unwrap();
        actuator.guarded = true;
        Some(Self { actuator, news, run_dir, folder, path, children: Vec::new(), requests: 0 })
    }

    /// A process in the cgroup that uses the GPU.
    fn arrives(&mut self) -> Task {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(self.folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        let (process, _) = process::look(child.id()).unwrap();
        self.children.push(child);
        self.actuator.meet((process, GPU), BOX, &self.path, "box");
        let mut task = Task::new(TaskId(u64::from(process.pid)), process, GPU, Instant::ZERO);
        task.container = Some(BOX);
        task
    }

    fn holds(&mut self, task: &Task) -> Vec<Happened> {
        self.requests += 1;
        let request = RequestId(self.requests);
        let because = Reason::CoreFull;
        self.actuator.act(Action::Hold { request, task: task.id, gate: Gate::Launches, because }, task)
    }

    fn releases(&mut self, task: &Task) -> Vec<Happened> {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.actuator.act(Action::Release { request, task: task.id, because: Reason::ItsTurn }, task)
    }

    /// What comes of the next order.
    fn waits(&mut self) -> Vec<Happened> {
        match self.news.recv_timeout(Duration::from_secs(30)).unwrap().told {
            Told::Done(done) => self.actuator.done(done),
            other => panic!("{other:?}"),
        }
    }

    fn stands(&self) -> bool {
        Freezer::at(&self.folder).unwrap().is_frozen().unwrap()
    }

    fn written(&self) -> usize {
        wire::held::read(self.run_dir.path()).len()
    }

    fn answered(&self, outcome: Outcome) -> Happened {
        answer(RequestId(self.requests), outcome)
    }
}

/// A gate that writes down what it is told. Nobody may be held there who runs under a shell.
#[derive(Default)]
struct Book {
    under_a_shell: bool,
    words: Vec<&'static str>,
}

/// The actuator's side of it.
struct Gatekeeper(Arc<Mutex<Book>>);

impl Gatekeeper {
    fn hears(&self, word: &'static str) {
        self.0.lock().unwrap().words.push(word);
    }
}

impl LaunchGate for Gatekeeper {
    fn covers(&self, _: Process) -> bool {
        !self.0.lock().unwrap().under_a_shell
    }

    fn shut(&mut self, _: Process, _: Gate) -> io::Result<()> {
        self.hears("shut");
        Ok(())
    }

    fn pass(&mut self, _: Process) -> io::Result<()> {
        self.hears("pass");
        Ok(())
    }

    fn set_moves(&mut self, _: Process, moves: bool) {
        self.hears(if moves { "moves" } else { "has moved" });
    }

    fn let_launch(&mut self, _: Process) {
        self.hears("let launch");
    }

    fn open(&mut self, _: Process) -> io::Result<()> {
        self.hears("open");
        Ok(())
    }
}

impl Scene {
    /// Who is held is held at a gate.
    fn has_a_gate(&mut self) -> Arc<Mutex<Book>> {
        let told = Arc::new(Mutex::new(Book::default()));
        self.actuator.gate = Some(std::boxed::Box::new(Gatekeeper(Arc::clone(&told))));
        told
    }
}

#[test]
fn who_is_under_a_shell_by_now_is_let_go_all_the_same() {
    let Some(mut scene) = Scene::new("adopted") else { return };
    let gate = scene.has_a_gate();
    let task = scene.arrives();
    scene.holds(&task);
    gate.lock().unwrap().under_a_shell = true;
    assert_eq!(scene.releases(&task), [scene.answered(Outcome::Released)]);
    assert_eq!(gate.lock().unwrap().words, ["shut", "open"]);
    // The kernel may have stopped it, for urgent work: nobody has held it here.
    assert_eq!(scene.releases(&task), [scene.answered(Outcome::Released)]);
    assert_eq!(gate.lock().unwrap().words, ["shut", "open", "open"]);
}

#[test]
fn whom_the_kernel_stopped_a_person_can_let_go_like_anybody() {
    let Some(mut scene) = Scene::new("by-the-kernel") else { return };
    let gate = scene.has_a_gate();
    let task = scene.arrives();
    let stand = [(BOX, task.process, GPU)];
    assert_eq!(scene.actuator.leave_alone(|container| container != BOX, &stand), []);
    assert!(!scene.actuator.leaves_alone(task.process));
    let let_go = Happened::Fact(Fact::LetGo { process: task.process, gpu: GPU });
    assert_eq!(scene.actuator.leave_alone(|container| container == BOX, &stand), [let_go]);
    assert_eq!(gate.lock().unwrap().words, ["let launch"]);
    assert!(scene.actuator.leaves_alone(task.process), "it is not held again");
}

#[test]
fn who_cannot_leave_is_held_as_it_was_unless_something_was_done_to_it() {
    use crate::swap::mover::Why;
    for locked in [false, true] {
        let Some(mut scene) = Scene::new("stays") else { return };
        let gate = scene.has_a_gate();
        let (sender, _orders) = std::sync::mpsc::channel();
        scene.actuator.swapper = Some(swapper::Swapper::to(sender));
        let task = scene.arrives();
        let (process, because, request) = (task.process, Reason::CoreFull, RequestId(7));
        scene.holds(&task);
        gate.lock().unwrap().words.clear();
        scene.actuator.act(Action::SwapOut { request, task: task.id, because }, &task);
        if locked {
            scene.actuator.moved(Moved { process, what: What::Locked(vec![(GPU.0, 1)]) });
        }
        let failed = What::Failed(Why::Refused("managed memory".to_owned()));
        let happened = scene.actuator.moved(Moved { process, what: failed });
        assert_eq!(happened[0], answer(request, Outcome::Failed));
        let let_go = Happened::Fact(Fact::LetGo { process, gpu: GPU });
        assert_eq!(happened.contains(&let_go), locked, "{happened:?}");
        assert_eq!(gate.lock().unwrap().words.contains(&"open"), locked);
        assert_eq!(scene.written(), usize::from(!locked));
    }
}

#[test]
fn who_is_frozen_and_cannot_leave_is_frozen_still() {
    use crate::swap::mover::Why;
    let Some(mut scene) = Scene::new("may-not") else { return };
    let task = scene.arrives();
    scene.holds(&task);
    assert!(scene.waits().contains(&scene.answered(Outcome::Held)));
    assert!(scene.stands());
    let (process, request, because) = (task.process, RequestId(7), Reason::CoreFull);
    let refused = [answer(request, Outcome::Failed)];
    let asked =
        |scene: &mut Scene| scene.actuator.act(Action::SwapOut { request, task: task.id, because }, &task);
    assert_eq!(asked(&mut scene), refused, "nobody is there to move it");
    let (sender, _orders) = std::sync::mpsc::channel();
    scene.actuator.swapper = Some(swapper::Swapper::to(sender));
    assert_eq!(asked(&mut scene), []);
    let failed = What::Failed(Why::Refused("managed memory".to_owned()));
    assert_eq!(scene.actuator.moved(Moved { process, what: failed })[..1], refused);
    assert!(scene.stands());
    assert!(scene.releases(&task).is_empty());
    scene.waits();
    assert!(!scene.stands());
}

#[test]
fn who_is_back_before_it_has_all_its_memory_stops_at_its_next_allocation() {
    let Some(mut scene) = Scene::new("asks") else { return };
    let gate = scene.has_a_gate();
    let (sender, orders) = std::sync::mpsc::channel();
    scene.actuator.swapper = Some(swapper::Swapper::to(sender));
    let task = scene.arrives();
    let (process, because, request) = (task.process, Reason::CoreFull, RequestId(7));
    let told = |scene: &mut Scene, what| scene.actuator.moved(Moved { process, what });
    scene.actuator.act(Action::SwapOut { request, task: task.id, because }, &task);
    told(&mut scene, What::Locked(vec![(GPU.0, 1)]));
    told(&mut scene, What::Out);
    for asks in [true, false] {
        gate.lock().unwrap().words.clear();
        scene.actuator.act(Action::SwapIn { request, task: task.id, asks, because }, &task);
        assert!(matches!(orders.try_iter().last(), Some(SwapOrder::Back(..))));
        assert_eq!(scene.written(), usize::from(asks), "nobody is held who is not written down");
        let back = told(&mut scene, What::Back);
        assert_eq!(back, [Happened::Fact(Fact::SwappedIn { process, gpu: GPU, asks })]);
        let words = std::mem::take(&mut gate.lock().unwrap().words);
        let at = |wanted: &str| words.iter().position(|word| *word == wanted);
        if asks {
            assert!(at("shut").is_some_and(|shut| Some(shut) < at("has moved")), "{words:?}");
            assert!(words.iter().rposition(|word| *word == "open") < at("shut"), "{words:?}");
        }
        assert_eq!(words.last(), Some(if asks { &"shut" } else { &"open" }), "{words:?}");
        scene.actuator.act(Action::SwapOut { request, task: task.id, because }, &task);
        told(&mut scene, What::Locked(vec![(GPU.0, 1)]));
        told(&mut scene, What::Out);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.actuator.finish();
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn stopped(task: &Task) -> Happened {
    Happened::Fact(Fact::Stopped { process: task.process, gpu: GPU })
}

fn resumed(task: &Task) -> Happened {
    Happened::Fact(Fact::Resumed { process: task.process, gpu: GPU })
}

#[test]
fn a_container_is_frozen_whole_once_all_its_tasks_are_held() {
    let Some(mut scene) = Scene::new("whole") else { return };
    let (one, two) = (scene.arrives(), scene.arrives());
    assert_eq!(scene.holds(&one), [scene.answered(Outcome::Held)]);
    assert!(!scene.stands() && scene.written() == 0);
    assert_eq!(scene.holds(&two), []);
    assert_eq!(scene.written(), 1, "before it is done");
    let done = scene.waits();
    let (mut tasks, held) = ([one, two], scene.answered(Outcome::Held));
    tasks.sort_by_key(|task| task.process);
    assert_eq!(done, [held, stopped(&tasks[0]), stopped(&tasks[1]), Happened::Frozen(BOX)]);
    assert!(scene.stands() && scene.actuator.has_frozen(BOX));
    assert_eq!(scene.releases(&one), []);
    let done = scene.waits();
    let released = scene.answered(Outcome::Released);
    assert_eq!(done, [released, resumed(&tasks[0]), resumed(&tasks[1]), Happened::Thawed(BOX)]);
    assert!(!scene.stands() && scene.written() == 0);
    assert!(scene.actuator.holds(BOX), "the other is held, and runs for want of a gate");
}

#[test]
fn a_process_nobody_knew_of_thaws_its_container_and_one_that_leaves_freezes_it() {
    let Some(mut scene) = Scene::new("late") else { return };
    let one = scene.arrives();
    scene.holds(&one);
    scene.waits();
    assert!(scene.stands());
    let late = scene.arrives();
    scene.waits();
    assert!(!scene.stands());
    assert_eq!(scene.actuator.part(late.process), []);
    scene.waits();
    assert!(scene.stands());
    assert_eq!(scene.actuator.part(one.process), []);
    scene.waits();
    assert!(!scene.stands(), "nobody is left to be held");
    assert!(scene.actuator.places.is_empty());
}

#[test]
fn what_a_person_paused_is_theirs_and_what_they_resume_runs() {
    let Some(mut scene) = Scene::new("theirs") else { return };
    let one = scene.arrives();
    scene.holds(&one);
    scene.waits();
    assert_eq!(scene.written(), 1);
    assert!(scene.actuator.paused(BOX));
    assert_eq!(scene.written(), 0, "not ours to let go");
    assert_eq!(scene.releases(&one), [scene.answered(Outcome::Released)]);
    assert!(scene.stands());
    assert_eq!(scene.holds(&one), [scene.answered(Outcome::Failed)]);
    scene.actuator.resumed(BOX);
    scene.waits();
    assert!(!scene.stands());
}

#[test]
fn nothing_is_held_without_a_guard_or_where_it_cannot_be_written_down() {
    let Some(mut scene) = Scene::new("guard") else { return };
    let one = scene.arrives();
    scene.actuator.guarded = false;
    assert_eq!(scene.holds(&one), [scene.answered(Outcome::Failed)]);
    scene.actuator.guarded = true;
    std::fs::create_dir(scene.run_dir.path().join("held.new")).unwrap();
    let held = scene.holds(&one);
    assert_eq!(held.last(), Some(&scene.answered(Outcome::Failed)));
    assert!(!scene.actuator.holds_anything() && !scene.stands());
}

#[test]
fn everything_is_let_go_at_once_and_whom_a_person_names_is_left_alone() {
    let Some(mut scene) = Scene::new("let-go") else { return };
    let one = scene.arrives();
    let let_go = Happened::Fact(Fact::LetGo { process: one.process, gpu: GPU });
    scene.holds(&one);
    scene.waits();
    assert_eq!(scene.actuator.let_go(|_, gpu| gpu == GpuId(7)), []);
    assert_eq!(scene.actuator.let_go(|_, _| true), std::slice::from_ref(&let_go));
    scene.waits();
    assert!(!scene.stands());
    scene.holds(&one);
    scene.waits();
    assert_eq!(scene.actuator.leave_alone(|container| container == BOX, &[]), [let_go]);
    scene.waits();
    assert_eq!(scene.holds(&one), [scene.answered(Outcome::Failed)]);
    assert!(!scene.stands());
}

#[test]
fn at_the_end_nobody_is_left_frozen() {
    let Some(mut scene) = Scene::new("end") else { return };
    let one = scene.arrives();
    scene.holds(&one);
    scene.actuator.finish();
    assert!(!scene.stands() && scene.written() == 0);
}
