//! A real browser for a test: Chromium without a window, driven by its own driver over the `WebDriver` protocol.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

use crate::scene::{Running, eventually, free_address};

/// How long a state may take to come about on a machine with other work to do.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// As root it needs no sandbox; whatever it would ask of others by itself is switched off, so that every request is the page's.
const OPTIONS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--force-color-profile=srgb",
];

/// One browser with one page.
pub(crate) struct Browser {
    session: String,
    agent: ureq::Agent,
    _driver: Running,
    _profile: TempDir,
}

impl Browser {
    /// Starts it, with a window of that size and nothing in its profile.
    pub(crate) fn start(width: u32, height: u32) -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let port = address.rsplit(':').next().expect("a port");
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = Running::start(&mut command);
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE * 2))
            .build()
            .into();
        let url = format!("http://{address}");
        eventually("a driver that is ready", || {
            let text = agent.get(format!("{url}/status")).call().ok()?.body_mut().read_to_string().ok()?;
            let status: Value = serde_json::from_str(&text).ok()?;
            (status["value"]["ready"] == true).then_some(())
        });
        let mut words: Vec<String> = OPTIONS.map(str::to_owned).to_vec();
        words.push(format!("--user-data-dir={}", profile.path().display()));
        words.push(format!("--window-size={width},{height}"));
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": words },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        }}});
        let made = send(&agent, &format!("{url}/session"), &wanted);
        let id = made["sessionId"].as_str().expect("a session").to_owned();
        let browser =
            Self { session: format!("{url}/session/{id}"), agent, _driver: driver, _profile: profile };
        // A telephone is narrower than the narrowest window.
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        browser.devtools("Emulation.setDeviceMetricsOverride", &size);
        browser
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        send(&self.agent, &format!("{}/{path}", self.session), body)
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.post("execute/sync", &json!({ "script": format!("return ({expression})"), "args": [] }))
    }

    /// Waits until an expression is true in the page; how long that took.
    pub(crate) fn until(&self, what: &str, expression: &str) -> Duration {
        let start = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            assert!(
                start.elapsed() < PATIENCE,
                "no {what} in the page:\n{}",
                self.value("document.body.innerText")
            );
            std::thread::sleep(LOOK_EVERY);
        }
        start.elapsed()
    }

    /// Types a key into whatever has the focus.
    pub(crate) fn key(&self, key: &str) {
        let kind = |kind: &str| json!({ "type": kind, "value": key });
        let keys = json!({ "type": "key", "id": "keyboard", "actions": [kind("keyDown"), kind("keyUp")] });
        self.post("actions", &json!({ "actions": [keys] }));
    }

    /// Points at a place of the window.
    pub(crate) fn point(&self, x: i64, y: i64) {
        let to = json!({ "type": "pointerMove", "x": x, "y": y, "duration": 0 });
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": [to] });
        self.post("actions", &json!({ "actions": [mouse] }));
    }

    /// What the system prefers: `dark` or `light`.
    pub(crate) fn prefers(&self, theme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Keeps a picture of the window.
    pub(crate) fn picture(&self, file: &Path) {
        let shot = self.devtools("Page.captureScreenshot", &json!({ "format": "png" }));
        let text = shot["data"].as_str().expect("a picture");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, decoded(text)).expect("a file");
    }

    /// What the page complained of: errors and warnings.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let all = self.post("se/log", &json!({ "type": "browser" }));
        let lines = all
            .as_array()
            .expect("a list")
            .iter()
            .filter(|line| line["level"] != "INFO" && line["level"] != "DEBUG");
        lines.map(|line| line["message"].to_string()).collect()
    }

    /// Every address that was asked for since it was last looked.
    pub(crate) fn requests(&self) -> Vec<String> {
        let all = self.post("se/log", &json!({ "type": "performance" }));
        let sent = |line: &Value| {
            let message: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let is = message["message"]["method"] == "Network.requestWillBeSent";
            is.then(|| message["message"]["params"]["request"]["url"].as_str().map(str::to_owned))?
        };
        all.as_array().expect("a list").iter().filter_map(sent).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; its driver is ended after it.
        let _ = self.agent.delete(&self.session).call();
    }
}

fn send(agent: &ureq::Agent, url: &str, body: &Value) -> Value {
    let mut answer =
        agent.post(url).header("Content-Type", "application/json").send(body.to_string()).expect("a driver");
    let text = answer.body_mut().with_config().limit(64 << 20).read_to_string().expect("text");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert!(answer["value"]["error"].is_null(), "{url}: {}", answer["value"]);
    answer["value"].clone()
}

/// Base 64, as the driver writes pictures.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut kept, mut bits) = (0_u32, 0);
    for value in text.bytes().filter_map(value) {
        kept = (kept << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((kept >> bits) as u8);
        }
    }
    bytes
}
