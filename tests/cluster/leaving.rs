//! Who leaves says so, and who cannot is told why.

use crate::hall::{Hall, failed, leeway};
use futures_util::{StreamExt, stream};
use node::link::client::{Connection, join, member_tls};
use wire::link::{FromNode, Hello, Said, Told};

/// Whoever is told nothing must take it for lost, and may stop what could run elsewhere.
#[test]
fn a_master_that_is_stopped_on_purpose_says_farewell_to_its_nodes() {
    let mut hall = Hall::open();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let invitation = format!("{}@{}", hall.token(), hall.address).parse().expect("a token");
        let identity = join(&invitation, "guest", "").await.expect("to join");
        let tls = member_tls(&identity).expect("a certificate");
        let mut connection = Connection::open(&hall.address, tls).await.expect("a connection");
        let hello = Said::Hello(Hello { name: "guest".to_owned(), gpus: Vec::new() });
        let said = stream::iter([FromNode::from(hello)]).chain(stream::pending());
        let mut told = connection.attach(said).await.expect("a stream");
        let welcome = told.message().await.expect("a message").and_then(|message| message.told);
        assert!(
            matches!(&welcome, Some(Told::Welcome(welcome)) if welcome.led && !welcome.lost),
            "{welcome:?}"
        );
        let stopping = std::thread::spawn(move || {
            hall.stop_master();
            hall
        });
        let farewell = told.message().await.expect("a message").and_then(|message| message.told);
        assert!(matches!(farewell, Some(Told::Farewell(_))), "{farewell:?}");
        assert_eq!(told.message().await.expect("an end in good order"), None);
        stopping.join().expect("a master that stopped");
    });
}

#[test]
fn where_there_is_no_cluster_nothing_can_be_removed_from_it() {
    let places = tempfile::tempdir().expect("a temporary folder");
    let mut command = leeway();
    command
        .args(["cluster", "remove", "n1", "--engine", "none", "--state-dir"])
        .arg(places.path().join("none"));
    let said = failed(command);
    assert!(said.contains("there is no cluster yet: `leeway cluster init` makes one"), "{said}");
    assert!(!places.path().join("none").exists(), "nothing was made");
}

#[test]
fn a_token_without_a_port_says_what_is_lacking() {
    let mut command = leeway();
    let token = format!("leeway1-{}-{}@gpu-1", "a1".repeat(32), "b2".repeat(20));
    command.args(["agent", "--join", &token]);
    let said = failed(command);
    assert!(said.contains("lacks its port") && said.contains("7843"), "{said}");
}
