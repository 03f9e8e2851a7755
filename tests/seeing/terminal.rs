//! `leeway top` in a real terminal, which tmux is: what it shows, what keys do, what it costs, and that it comes back.

use crate::scene::{Container, Scene, eventually, leeway_program};
use crate::tmux::Tmux;
use std::time::{Duration, Instant};

/// The unit of the kernel's account of processor time: a hundredth of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// For how long the cost is measured.
const MEASURED: Duration = Duration::from_secs(10);
/// What ten frames a second of sixty containers may take of a core.
const CPU_RATIO_MAX: f64 = 0.03;

/// A terminal with `leeway top` in it.
fn top(scene: &Scene, size: (u16, u16)) -> Tmux {
    let socket = scene.socket();
    Tmux::start(
        &scene.place(""),
        size,
        &format!("LEEWAY_SOCKET={} {} top", socket.display(), leeway_program()),
    )
}

fn ticks(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace().skip(11);
    fields.take(2).map(|field| field.parse::<f64>().expect("a number")).sum()
}

/// The shell that tmux starts may stay around its program.
fn top_below(pid: u32) -> u32 {
    eventually("the program in the terminal", || {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        if name.trim() == "leeway" {
            return Some(pid);
        }
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })
}

#[test]
fn a_terminal_shows_it_live_and_keys_do_what_they_say() {
    let scene = Scene::new();
    let agent = scene.agent("policy = \"none\"\n");
    let hold = ["hold", "--for", "1h"];
    let _late = scene.start("late", &[("deadline", "1s")], &hold);
    let _train = scene.start("train", &[("deadline", "10m")], &hold);
    let tmux = top(&scene, (140, 20));
    // The miss is drawn in the next frame: the screen passes through "late, not yet crossed out".
    let shown = tmux.until("late task", |screen| {
        let is_late = |line: &str| {
            line.contains("late ") && line.contains("██████████") && line.contains(" -") && line.contains('╳')
        };
        screen.lines().any(is_late)
    });
    assert!(shown.contains("policy none") && shown.contains("GPU 0"), "{shown}");
    tmux.keys(&["/", "t", "r", "a", "Enter"]);
    tmux.until("filter", |screen| !screen.contains("  late ") && screen.contains("  train "));
    tmux.keys(&["Down", "Enter"]);
    tmux.until("explanation", |screen| screen.contains("train runs for"));
    tmux.keys(&["x", "?"]);
    tmux.until("help", |screen| screen.contains("order by float"));
    tmux.keys(&["x", "Escape"]);
    agent.stop();
    tmux.until("word of the loss", |screen| screen.contains("trying again"));
    let _agent = scene.agent("policy = \"fifo\"\n");
    tmux.until("picture of the next agent", |screen| {
        screen.contains("policy fifo") && screen.contains("  late ")
    });
    tmux.keys(&["q"]);
    eventually("an end", || tmux.has_ended().then_some(()));
    // The next agent counts from when it saw the task.
    eventually("a frame with a late task, in plain characters", || {
        let once = scene.said(&["top", "--once", "--theme", "ascii"]);
        let late = once.lines().any(|line| line.contains("late") && line.contains("!!!!!!!!!!"));
        (late && once.is_ascii()).then_some(())
    });
}

#[test]
fn sixty_containers_at_ten_frames_a_second_take_little() {
    let scene = Scene::new();
    let _agent = scene.agent("policy = \"none\"\n");
    let labels = [("deadline", "10m")];
    let _crowd: Vec<Container> = (0..60)
        .map(|number| {
            scene.start(&format!("box-{number:02}"), &labels, &["hold", "--memory", "1MiB", "--for", "1h"])
        })
        .collect();
    let tmux = top(&scene, (160, 70));
    tmux.until("sixty that run", |screen| {
        screen.lines().filter(|line| line.contains("running")).count() == 60
    });
    let pid = top_below(tmux.pid());
    let (before, start) = (ticks(pid), Instant::now());
    std::thread::sleep(MEASURED);
    let ratio = (ticks(pid) - before) / TICKS_PER_SECOND / start.elapsed().as_secs_f64();
    println!("leeway top with 60 containers: {:.2} % of a core", ratio * 100.0);
    assert!(ratio < CPU_RATIO_MAX, "{ratio}");
}
