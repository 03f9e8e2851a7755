//! Frames as text: what a person sees, in every theme and at several widths, and what keys and clicks make of it.

use super::feed::Heard;
use super::model::Model;
use super::theme::{Meaning, Theme};
use super::view::{Open, Sort, View};
use super::{keys, screen, text};
use crate::timeline::tests::{event, task, time, us};
use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use std::path::Path;
use wire::agent::{ContainerLine, GpuLine, Live, LiveLine, NodeLine, State};
use wire::cluster::{MasterLine, NodeRank};
use wire::labels::Mode;

/// A minute after the beginning.
const NOW: i64 = 60_000;

fn container(
    name: &str,
    state: State,
    deadline: Option<i64>,
    due: Option<i64>,
    hits: (u64, u64),
) -> ContainerLine {
    let busy = state != State::Idle;
    ContainerLine {
        id: format!("/{name}"),
        name: name.to_owned(),
        image: None,
        namespace: None,
        pod: None,
        deadline_us: deadline.map(|ms| ms * 1000),
        mode: Mode::Process,
        managed: true,
        tasks: usize::from(busy),
        due: due.map(time),
        reason: (state == State::Held).then(|| "infer is due sooner".to_owned()),
        gpu_memory_bytes: if busy { 768 << 20 } else { 0 },
        gpu_core_ratio: if state == State::Running { 0.33 } else { 0.0 },
        live: Live { gpu: Some(0), state, float_us: deadline.map(|_| 250_000), hits: hits.0, misses: hits.1 },
    }
}

fn node() -> NodeLine {
    let gpu = GpuLine {
        gpu: 0,
        name: "NVIDIA H200".to_owned(),
        uuid: "GPU-1".to_owned(),
        mig: Vec::new(),
        lost: false,
        memory_total_bytes: 24 << 30,
        memory_used_bytes: 6 << 30,
        core_ratio: 0.66,
        provisionable: false,
        float_us: Some(-1_250_000),
        tasks: 3,
    };
    NodeLine {
        node: "gpu-1".to_owned(),
        version: "0.1.0".to_owned(),
        since: time(0),
        tier: "probes".to_owned(),
        error_us: 1000,
        policy: "least-slack".to_owned(),
        docker: true,
        probe_events_dropped: 0,
        gpus: vec![gpu],
    }
}

/// One that runs with time to spare, one with little, one that is held, one that is late, one that does nothing, one without a deadline.
fn scene() -> Model {
    let held = event("held", "train", 3, 40_000, "infer is due sooner");
    let line = LiveLine {
        time: time(NOW),
        all: true,
        node: Some(node()),
        master: None,
        nodes: None,
        containers: vec![
            container("infer", State::Running, Some(2_000), Some(NOW + 1_500), (41, 0)),
            container("thin", State::Running, Some(20_000), Some(NOW + 2_500), (6, 1)),
            container("train", State::Held, Some(60_000), Some(NOW + 20_000), (0, 0)),
            container("render", State::Running, Some(4_000), Some(NOW - 1_234), (3, 2)),
            container("report", State::Idle, Some(500), None, (9, 0)),
            container("batch", State::Running, None, None, (0, 0)),
        ],
        gone: Vec::new(),
        tasks: vec![
            task("infer", 1, 10_000, Some(11_000), Some(2_000)),
            task("infer", 1, 30_000, Some(33_000), Some(2_000)),
            task("infer", 1, NOW - 500, None, Some(2_000)),
            task("thin", 2, NOW - 17_500, None, Some(20_000)),
            task("train", 3, 20_000, None, Some(60_000)),
            task("render", 4, NOW - 5_234, None, Some(4_000)),
            task("report", 5, 50_000, Some(50_250), Some(500)),
            task("batch", 6, 1_000, None, None),
        ],
        events: vec![held, event("missed", "render", 4, NOW - 1_234, "its deadline of 4s passed")],
    };
    let mut model = Model::default();
    model.hear(Heard::Line(Box::new(line)));
    model
}

/// A screen of that size.
fn drawn(model: &Model, view: &mut View, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen::draw(frame, model, view, us(NOW))).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(line).collect()
}

/// A master with four GPUs: one that is free, one with services, one that missed, one that swarm does not use.
fn cluster() -> Model {
    let rank = |node: &str, gpu, state: &str, free: u64, float_us, reason: Option<&str>| NodeRank {
        node: node.to_owned(),
        gpu,
        provisionable: reason.is_none(),
        state: state.to_owned(),
        reason: reason.map(str::to_owned),
        gpu_memory_free_bytes: free << 30,
        gpu_memory_total_bytes: 24 << 30,
        float_us,
        age_us: 250_000,
        services: if node == "n1" { vec!["infer".to_owned(), "train".to_owned()] } else { Vec::new() },
    };
    let master = MasterLine {
        version: "0.1.0".to_owned(),
        address: "10.0.0.1:7843".to_owned(),
        active: true,
        engine: "swarm".to_owned(),
        leader: "n1".to_owned(),
        agents: 3,
        reports: 0,
        report_bytes: 0,
        report_lag_p99_us: None,
        placements: 12,
        placement_p50_us: Some(500),
        placement_p99_us: Some(1_800),
    };
    let mut placed = event("placed", "infer", 0, NOW - 2_000, "in 0.5 ms: the most float left after it: 1s");
    placed.node = "n1".to_owned();
    let mut model = Model::default();
    model.hear(Heard::Line(Box::new(LiveLine {
        time: time(NOW),
        all: true,
        master: Some(master),
        nodes: Some(vec![
            rank("n3", 0, "ready", 24, None, None),
            rank("n1", 0, "ready", 8, Some(59_755_000), None),
            rank("n1", 1, "missed", 16, Some(-1_000_000), Some("a container there missed its deadline")),
            rank("gpu-12", 0, "barred", 24, None, Some("swarm does not use it: its availability is drain")),
        ]),
        events: vec![placed],
        ..LiveLine::default()
    })));
    model
}

fn check(view: &mut View, width: u16, expected: Expect) {
    check_of(&scene(), view, width, expected);
}

#[expect(clippy::needless_pass_by_value, reason = "as expect-test has it")]
fn check_of(model: &Model, view: &mut View, width: u16, expected: Expect) {
    let text = text(model, view, us(NOW), width);
    // The time of day depends on where the machine is.
    let (first, rest) = text.split_once('\n').unwrap();
    let time = first.len() - "hh:mm:ss".len();
    let timeless = |line: &str| {
        let dated = line.starts_with(|letter: char| letter.is_ascii_digit());
        if dated { format!("hh:mm:ss{}\n", &line["hh:mm:ss".len()..]) } else { format!("{line}\n") }
    };
    let rest: String = rest.lines().map(timeless).collect();
    expected.assert_eq(&format!("{}hh:mm:ss\n{rest}", &first[..time]));
}

fn key(view: &mut View, model: &Model, code: KeyCode) -> bool {
    let event = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    keys::take(&event, view, model, Path::new("/nowhere/agent.sock"), us(NOW))
}

/// The names in the order they are shown.
fn order(view: &mut View, model: &Model) -> Vec<String> {
    view.rows(model, us(NOW)).iter().map(|line| line.name.clone()).collect()
}

#[test]
fn a_wide_screen_has_everything() {
    check(
        &mut View::new(Theme::Dark),
        140,
        expect![[r#"
            leeway  gpu-1  policy least-slack  probes to within 1ms                                                                             hh:mm:ss
            GPU 0 NVIDIA H200  core ███████▉····  66 %  memory ███········· 6.0 GiB of 24.0 GiB  float -1.3s  takes no more

              CONTAINER   GPU   CORE    MEMORY  STATE    DEADLINE  FLOAT                        HITS   -60s               LAST MINUTE                now
              batch         0   33 %   768 MiB  running         -                    -             -   ▆███████████████████████████████████████████████▅
              infer         0   33 %   768 MiB  running        2s  ███████▌··     1.5s    41/41 100%          ▃▄               █╳▄                     ▄
              render        0   33 %   768 MiB  running        4s  ██████████    -1.3s       3/5 60%                                               ▇██╳▅
              report        0      -         -  idle        500ms                250ms      9/9 100%                                           ▂
              thin          0   33 %   768 MiB  running       20s  █▎········     2.5s       6/7 85%                                     ▇█████████████▅
              train         0    0 %   768 MiB  held           1m  ███▍······      20s             -                  ▂████████████████░░░░░░░░░░░░░░░░░
        "#]],
    );
}

#[test]
fn plain_characters_say_the_same() {
    check(
        &mut View::new(Theme::Ascii),
        120,
        expect![[r#"
            leeway  gpu-1  policy least-slack  probes to within 1ms                                                         hh:mm:ss
            GPU 0 NVIDIA H200  core #######-----  66 %  memory ###--------- 6.0 GiB of 24.0 GiB  float -1.3s  takes no more

              CONTAINER   GPU   CORE    MEMORY  STATE    DEADLINE  FLOAT                        HITS   -60s     LAST MINUTE      now
              batch         0   33 %   768 MiB  running         -                    -             -   =============================
              infer         0   33 %   768 MiB  running        2s  #######---     1.5s    41/41 100%       =         X!            =
              render        0   33 %   768 MiB  running        4s  !!!!!!!!!!    -1.3s       3/5 60%                            ==X!
              report        0      -         -  idle        500ms                250ms      9/9 100%                          =
              thin          0   33 %   768 MiB  running       20s  #---------     2.5s       6/7 85%                       =========
              train         0    0 %   768 MiB  held           1m  ###-------      20s             -            ==========..........
        "#]],
    );
}

#[test]
fn a_narrow_screen_has_what_matters() {
    check(
        &mut View::new(Theme::Dark),
        80,
        expect![[r#"
            leeway  gpu-1  policy least-slack  probes to within 1ms                 hh:mm:ss
            GPU 0  core ███▎·  66 %  memory █▎··· 6.0 GiB of 24.0 GiB  float -1.3s  takes no

              CONTAINER  STATE    FLOAT                        HITS   -60s  LAST MINUTE  now
              batch      running                    -             -   █████████████████████▁
              infer      running  ███████▌··     1.5s    41/41 100%     ▃▁      ╳▁        ▂▁
              render     running  ██████████    -1.3s       3/5 60%                      █╳▁
              report     idle                   250ms      9/9 100%                    ▁
              thin       running  █▎········     2.5s       6/7 85%                 ▄██████│
              train      held     ███▍······      20s             -         ▆██████▆░░░░░░░░
        "#]],
    );
}

#[test]
fn a_float_is_green_then_yellow_then_red() {
    for theme in [Theme::Dark, Theme::Light, Theme::ColourBlind] {
        let buffer = drawn(&scene(), &mut View::new(theme), 140, 16);
        let shown = lines(&buffer);
        for (name, meaning) in
            [("infer", Meaning::Good), ("thin", Meaning::Thin), ("render", Meaning::Missed)]
        {
            let y = shown.iter().position(|line| line.trim_start().starts_with(name)).unwrap();
            let x = shown[y].chars().position(|letter| letter == '█' || letter == '▋').unwrap();
            assert_eq!(buffer[(x as u16, y as u16)].style().fg, theme.style(meaning).fg, "{name} {theme:?}");
        }
    }
}

#[test]
fn rows_are_ordered_by_key_and_by_click() {
    let (model, mut view) = (scene(), View::new(Theme::Dark));
    assert_eq!(order(&mut view, &model), ["batch", "infer", "render", "report", "thin", "train"]);
    key(&mut view, &model, KeyCode::Char('f'));
    assert_eq!(order(&mut view, &model)[..3], ["render", "report", "infer"]);
    key(&mut view, &model, KeyCode::Char('r'));
    assert_eq!(order(&mut view, &model)[0], "batch");
    drawn(&model, &mut view, 140, 16);
    let heading = view.drawn.headings.iter().find(|(_, sort)| *sort == Sort::Hits).unwrap().0;
    let click = |row, column| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })
    };
    keys::take(&click(heading.y, heading.x), &mut view, &model, Path::new("/nowhere"), us(NOW));
    assert_eq!(order(&mut view, &model)[..2], ["render", "thin"]);
    let row = view.drawn.rows.y;
    drawn(&model, &mut view, 140, 16);
    keys::take(&click(row, 4), &mut view, &model, Path::new("/nowhere"), us(NOW));
    assert_eq!(view.chosen.as_deref(), Some("/render"));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let (model, mut view) = (scene(), View::new(Theme::Dark));
    "/HELX".chars().for_each(|letter| assert!(key(&mut view, &model, KeyCode::Char(letter))));
    key(&mut view, &model, KeyCode::Backspace);
    assert!(lines(&drawn(&model, &mut view, 100, 12)).last().unwrap().starts_with("/HEL_  Enter keeps"));
    key(&mut view, &model, KeyCode::Enter);
    assert_eq!(order(&mut view, &model), ["train"], "by state as well as by name");
    assert!(key(&mut view, &model, KeyCode::Esc));
    assert_eq!(order(&mut view, &model).len(), 6);
    assert!(!key(&mut view, &model, KeyCode::Esc), "once more leaves");
}

#[test]
fn what_is_stopped_stays_as_it_was() {
    let (mut model, mut view) = (scene(), View::new(Theme::Dark));
    key(&mut view, &model, KeyCode::Char('p'));
    model.hear(Heard::Line(Box::new(LiveLine { gone: vec!["/infer".to_owned()], ..LiveLine::default() })));
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(shown.contains("stopped: p goes on") && shown.contains("infer "), "{shown}");
    key(&mut view, &model, KeyCode::Char('p'));
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(!shown.contains("\n  infer "), "{shown}");
}

#[test]
fn a_lost_connection_is_said_and_what_is_chosen_explains_itself() {
    let (mut model, mut view) = (scene(), View::new(Theme::Dark));
    model.hear(Heard::Lost("no agent answers at /run/x".to_owned()));
    assert!((0..6).all(|_| key(&mut view, &model, KeyCode::Down)));
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(shown.contains("no agent answers at /run/x; trying again"), "{shown}");
    assert!(shown.contains("train is held, because infer is due sooner"), "{shown}");
    key(&mut view, &model, KeyCode::Enter);
    assert!(matches!(&view.open, Open::Explained(name, Err(_)) if name == "train"));
    key(&mut view, &model, KeyCode::Char('x'));
    key(&mut view, &model, KeyCode::Char('?'));
    let shown = lines(&drawn(&model, &mut view, 120, 20)).join("\n");
    assert!(shown.contains("help") && shown.contains("order by float"), "{shown}");
}

#[test]
fn a_master_s_nodes_are_in_its_order_with_what_happened_last() {
    check_of(
        &cluster(),
        &mut View::new(Theme::Dark),
        140,
        expect![[r#"
            leeway  3 agents, 4 GPUs  master 10.0.0.1:7843 active  12 placed, p50 0.5ms p99 1.8ms                                               hh:mm:ss

              NODE    GPU  STATE        FREE MEMORY                          FLOAT  REPORTED  SERVICES
              n3        0  ready        ██████████ 24.0 GiB of 24.0 GiB  unlimited     250ms
              n1        0  ready        ███▍······ 8.0 GiB of 24.0 GiB       59.7s     250ms  infer, train
              n1        1  missed       ██████▋··· 16.0 GiB of 24.0 GiB        -1s     250ms  a container there missed its deadline
              gpu-12    0  barred       ██████████ 24.0 GiB of 24.0 GiB  unlimited     250ms  swarm does not use it: its availability is drain

            hh:mm:ss  placed  infer on n1: in 0.5 ms: the most float left after it: 1s
        "#]],
    );
}

#[test]
fn a_narrow_screen_has_what_matters_of_nodes_in_plain_characters() {
    check_of(
        &cluster(),
        &mut View::new(Theme::Ascii),
        80,
        expect![[r#"
            leeway  3 agents, 4 GPUs  master 10.0.0.1:7843 active  12 placed, p50 0.hh:mm:ss

              NODE    GPU  STATE        FREE MEMORY               FLOAT  REPORTED  SERVICES
              n3        0  ready        24.0 GiB of 24.0 GiB  unlimited     250ms
              n1        0  ready        8.0 GiB of 24.0 GiB       59.7s     250ms  infer, tr
              n1        1  missed       16.0 GiB of 24.0 GiB        -1s     250ms  a contain
              gpu-12    0  barred       24.0 GiB of 24.0 GiB  unlimited     250ms  swarm doe

            hh:mm:ss  placed  infer on n1: in 0.5 ms: the most float left after it: 1s
        "#]],
    );
}

#[test]
fn nodes_are_filtered_chosen_and_explained_and_keep_their_order() {
    let (mut model, mut view) = (cluster(), View::new(Theme::Dark));
    let names = |view: &View, model: &Model| -> Vec<String> {
        view.nodes(model).iter().map(|node| format!("{}/{}", node.node, node.gpu)).collect()
    };
    key(&mut view, &model, KeyCode::Char('f'));
    assert_eq!(names(&view, &model), ["n3/0", "n1/0", "n1/1", "gpu-12/0"], "rank is the order");
    "/TRAI".chars().for_each(|letter| assert!(key(&mut view, &model, KeyCode::Char(letter))));
    key(&mut view, &model, KeyCode::Enter);
    assert_eq!(names(&view, &model), ["n1/0", "n1/1"], "by service as well as by name and state");
    key(&mut view, &model, KeyCode::Esc);
    assert!((0..4).all(|_| key(&mut view, &model, KeyCode::Down)));
    key(&mut view, &model, KeyCode::Enter);
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(
        shown.contains(" gpu-12, GPU 0 ") && shown.contains("It takes nobody: swarm does not"),
        "{shown}"
    );
    key(&mut view, &model, KeyCode::Char('x'));
    model.hear(Heard::Lost("nobody answers at /run/x".to_owned()));
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(shown.contains("nobody answers at /run/x; trying again") && shown.contains("n3"), "{shown}");
    model.hear(Heard::Line(Box::new(LiveLine { nodes: Some(Vec::new()), ..LiveLine::default() })));
    let shown = lines(&drawn(&model, &mut view, 120, 16)).join("\n");
    assert!(shown.contains("No node reports yet") && !shown.contains("trying again"), "{shown}");
}
