//! Prometheus: a real one reads the agent, and every query of the dashboard and the rules means something to it.

use crate::scene::{Running, Scene, eventually, free_address, repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

/// What the agent must say, by sample.
const NAMES: [&str; 15] = [
    "leeway_tasks_total",
    "leeway_task_duration_seconds_bucket",
    "leeway_task_float_seconds_bucket",
    "leeway_task_tardiness_seconds_bucket",
    "leeway_task_wait_seconds_bucket",
    "leeway_container_gpu_memory_used_bytes",
    "leeway_container_gpu_busy_seconds_total",
    "leeway_holds_total",
    "leeway_hold_seconds_total",
    "leeway_node_float_seconds",
    "leeway_node_provisionable",
    "leeway_monitor_error_bound_seconds",
    "leeway_probe_events_dropped_total",
    "leeway_webhooks_lost_total",
    "leeway_build_info",
];

const RULES: &str = "etc/prometheus/leeway.rules.yml";
const DASHBOARD: &str = "etc/grafana/leeway.json";

/// A Prometheus that reads the agent every second and has our rules.
struct Prometheus {
    address: String,
    _process: Running,
}

impl Prometheus {
    fn start(scene: &Scene) -> Self {
        let address = free_address();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [\"{}\"]\n\
             scrape_configs: [{{job_name: leeway, static_configs: [{{targets: [\"{}\"]}}]}}]\n",
            repository().join(RULES).display(),
            scene.http
        );
        let file = scene.place("prometheus.yml");
        std::fs::write(&file, config).expect("a file");
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", file.display())).arg("--log.level=error");
        command.arg(format!("--storage.tsdb.path={}", scene.place("tsdb").display()));
        command.arg(format!("--web.listen-address={address}"));
        Self { address, _process: Running::start(&mut command) }
    }

    fn ask(&self, path: &str) -> Result<Value, String> {
        let url = format!("http://{}/api/v1/{path}", self.address);
        let words = |error: ureq::Error| error.to_string();
        let mut answer = ureq::get(url).config().http_status_as_error(false).build().call().map_err(words)?;
        let text = answer.body_mut().read_to_string().map_err(words)?;
        let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if answer["status"] == "success" {
            Ok(answer["data"].clone())
        } else {
            Err(answer["error"].to_string())
        }
    }

    fn query(&self, query: &str) -> Result<Value, String> {
        self.ask(&format!("query?query={}", wire::client::escaped(query)))
    }

    /// The series a query gives now.
    fn series(&self, query: &str) -> Vec<Value> {
        let data = self.query(query).expect(query);
        data["result"].as_array().expect("a list").clone()
    }
}

fn promtool(words: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    let mut child =
        command.args(words).stdin(Stdio::piped()).spawn().expect("Debian's prometheus has promtool");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("a reader");
    assert!(child.wait().expect("an end").success(), "promtool {words:?} complains");
}

/// The names of our samples in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("leeway_")).collect()
}

fn exported(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect()
}

fn file(name: &str) -> String {
    std::fs::read_to_string(repository().join(name)).expect(name)
}

/// A machine on which something of everything has happened: a hit, a miss, a hold.
fn lively() -> (Scene, Running, Vec<crate::scene::Container>) {
    let scene = Scene::new();
    let agent = scene.agent("policy = \"fifo\"\n");
    // Long enough that the second comes while the first is at it, also on a busy machine.
    let matmul = ["matmul", "--n", "8192", "--repeat", "12"];
    let mut containers = vec![scene.start("first", &[("deadline", "1m")], &matmul)];
    containers.push(scene.start("late", &[("deadline", "10ms")], &matmul));
    containers.push(scene.start(
        "batch",
        &[("manage", "true")],
        &["hold", "--memory", "64MiB", "--for", "1h"],
    ));
    eventually("a task in time, one that is late, and a hold", || {
        let text = scene.get("/metrics");
        let counted = |name: &str, label: &str| {
            let is = |line: &&str| line.starts_with(name) && line.contains(label) && !line.ends_with(" 0");
            text.lines().any(|line| is(&line))
        };
        let results = counted("leeway_tasks_total", "\"hit\"") && counted("leeway_tasks_total", "\"missed\"");
        let rest =
            counted("leeway_holds_total", "") && counted("leeway_container_gpu_busy_seconds_total", "");
        (results && rest).then_some(())
    });
    (scene, agent, containers)
}

#[test]
fn a_prometheus_reads_everything_and_understands_every_query() {
    let (scene, _agent, _containers) = lively();
    let text = scene.get("/metrics");
    promtool(&["check", "metrics"], &text);
    let has = exported(&text);
    let missing: Vec<_> = NAMES.iter().filter(|name| !has.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{text}");
    assert!(!text.contains("pid="), "a series for each process would never end:\n{text}");
    let prometheus = Prometheus::start(&scene);
    eventually("a Prometheus that has read the agent", || {
        let known = prometheus.query("leeway_build_info").ok()?;
        (known["result"].as_array()?.len() == 1).then_some(())
    });
    // By its Accept header it was answered in the newer format, and has the same samples from there.
    for name in NAMES {
        assert!(!prometheus.series(name).is_empty(), "{name}");
    }
    let labels = &prometheus.series("leeway_tasks_total{result=\"missed\"} > 0")[0]["metric"];
    assert_eq!(
        (&labels["container"], &labels["node"], &labels["gpu"]),
        (&"late".into(), &"here".into(), &"0".into())
    );
    let dashboard: Value = serde_json::from_str(&file(DASHBOARD)).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("a list");
    let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("a list"));
    let queries: Vec<&str> = queries.map(|target| target["expr"].as_str().expect("a query")).collect();
    assert!(queries.len() > 15, "{queries:?}");
    for query in queries {
        let query = query.replace("$__range", "5m").replace("$__rate_interval", "5m");
        let query = query.replace("$node", ".*").replace("$container", ".*");
        let understood = prometheus.query(&query);
        assert!(understood.is_ok(), "{query}: {understood:?}");
    }
    let rules = prometheus.ask("rules").expect("rules");
    let loaded = rules["groups"][0]["rules"].as_array().expect("a list").len();
    assert!(loaded >= 8, "{rules}");
}

#[test]
fn what_dashboard_and_rules_name_is_there() {
    let samples: BTreeSet<&str> = NAMES.into_iter().collect();
    for name in [DASHBOARD, RULES, "tests/seeing/alerts.yml"] {
        let text = file(name);
        let unknown: Vec<_> = named(&text).difference(&samples).copied().collect();
        assert!(unknown.is_empty(), "{name} names {unknown:?}");
    }
}

#[test]
fn the_rules_are_rules_and_raise_the_alerts_they_should() {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, to) in [(RULES, "leeway.rules.yml"), ("tests/seeing/alerts.yml", "alerts.yml")] {
        std::fs::copy(repository().join(from), folder.path().join(to)).expect("a copy");
    }
    let at = |name: &str| folder.path().join(name).display().to_string();
    promtool(&["check", "rules", &at("leeway.rules.yml")], "");
    promtool(&["test", "rules", &at("alerts.yml")], "");
}
