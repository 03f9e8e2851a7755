//! Who may come in: loopback by its own name, elsewhere with the token; and who may change something.

use crate::picture;
use crate::scene::Scene;
use crate::webdriver::Browser;
use std::os::unix::fs::PermissionsExt;

const TOKEN: &str = "correct-horse-battery-staple";

/// The code of an answer.
fn code(scene: &Scene, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let url = format!("http://{}{path}", scene.http);
    let request = headers.iter().fold(
        ureq::http::Request::builder().method(method).uri(url).header("Content-Type", "application/json"),
        |request, (name, value)| request.header(*name, *value),
    );
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    agent.run(request.body(body.to_owned()).expect("a request")).expect("an answer").status().as_u16()
}

/// A token in a file that only we may read.
fn with_token(scene: &Scene) -> String {
    let file = scene.place("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("a file of ours");
    format!("policy = \"none\"\nhttp_token_file = \"{}\"\n", file.display())
}

#[test]
fn on_loopback_only_its_own_name_counts_and_nothing_is_changed() {
    let scene = Scene::new();
    let agent = scene.agent("policy = \"none\"\n");
    let node = |headers: &[(&str, &str)]| code(&scene, "GET", "/v1/node", headers, "");
    assert_eq!(node(&[]), 200);
    assert_eq!(node(&[("Host", "example.org")]), 403, "a name that was made to mean this machine");
    let change =
        |headers: &[(&str, &str)]| code(&scene, "PUT", "/v1/policy", headers, r#"{"policy":"fifo"}"#);
    assert_eq!(change(&[]), 405);
    assert_eq!(code(&scene, "POST", "/v1/release", &[], "{}"), 404);
    assert_eq!(scene.get("/v1/access"), r#"{"may_change":false}"#);
    agent.stop();
    let _agent = scene.agent("policy = \"none\"\nhttp_actions = true\n");
    assert_eq!(change(&[("Origin", "http://example.org")]), 403, "another page");
    assert_eq!(change(&[("Origin", &format!("http://{}", scene.http))]), 200);
    assert_eq!(scene.get("/v1/access"), r#"{"may_change":true}"#);
}

#[test]
fn who_has_no_token_sees_the_door_and_nothing_else() {
    let scene = Scene::new();
    let _agent = scene.agent(&with_token(&scene));
    let hold = ["hold", "--for", "1h"];
    let _train = scene.start("train", &[("deadline", "1h")], &hold);
    let right = format!("Bearer {TOKEN}");
    for path in ["/v1/node", "/v1/live", "/v1/events", "/v1/containers", "/metrics", "/v1/tasks", "/nowhere"]
    {
        assert_eq!(code(&scene, "GET", path, &[], ""), 401, "{path}");
        assert_eq!(code(&scene, "GET", path, &[("Authorization", "Bearer wrong")], ""), 401, "{path}");
    }
    assert_eq!(code(&scene, "GET", "/v1/node", &[("Authorization", &right)], ""), 200);
    assert_eq!((code(&scene, "GET", "/", &[], ""), code(&scene, "GET", "/healthz", &[], "")), (200, 200));
    let browser = Browser::start(900, 600);
    browser.open(&format!("http://{}/", scene.http));
    browser.until("door", "document.getElementById('door').open");
    let give = |token: &str| {
        browser.value(&format!("document.getElementById('token').value = '{token}'"));
        browser.value("document.getElementById('door-form').requestSubmit()");
    };
    give("wrong-token-wrong-token");
    browser.until("refusal", "!document.getElementById('door-wrong').hidden");
    browser.picture(&picture("door"));
    give(TOKEN);
    browser.until("container", "document.querySelector('#rows a')?.textContent === 'train'");
    // Handed over in the address, it is used, and does not stay there.
    let other = Browser::start(900, 600);
    other.open(&format!("http://{}/#token={TOKEN}", scene.http));
    other.until("container", "document.querySelector('#rows a')?.textContent === 'train'");
    assert_eq!(other.value("location.hash"), "#/");
    assert_eq!(other.complaints(), Vec::<String>::new());
}

#[test]
fn what_would_be_open_to_anybody_is_refused() {
    let scene = Scene::new();
    let said = |config: &str, http: &str| {
        let file = scene.place("leeway.toml");
        std::fs::write(&file, config).expect("a file");
        let mut agent = scene.leeway(&["agent", "--http", http, "--config"]);
        agent.arg(file).arg("--run-dir").arg(scene.place("run")).arg("--state-dir").arg(scene.place("state"));
        let output = agent.arg("--driver").arg(scene.place("gpu")).output().expect("a program");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    let open = said("", "0.0.0.0:0");
    assert!(open.contains("0.0.0.0:0") && open.contains("http_token_file"), "{open}");
    let config = with_token(&scene);
    std::fs::set_permissions(scene.place("token"), PermissionsExt::from_mode(0o644)).expect("a file of ours");
    assert!(said(&config, "127.0.0.1:0").contains("anybody may read it"));
    std::fs::write(scene.place("token"), "short").expect("a file");
    std::fs::set_permissions(scene.place("token"), PermissionsExt::from_mode(0o600)).expect("a file of ours");
    assert!(said(&config, "127.0.0.1:0").contains("at least 16"));
}
