//! Whoever has no right to speak is refused, told of once, and changes nothing for those who have.

use crate::hall::{Hall, eventually, failed, simulate, succeeded};
use cluster::certificates::Authority;
use futures_util::{StreamExt, stream};
use node::link::client::{Connection, NoMaster, member_tls, stranger_tls};
use node::link::identity::{Identity, folder};
use std::io::Write;
use std::sync::Arc;
use wire::kept::Kept;
use wire::link::{FromNode, Gpu, Hello, KnownContainer, KnownContainers, Reports, Said};

/// How often somebody who is refused tries again.
const TRIES: usize = 3;

/// A cluster with one honest node, `good`, that must never notice anything.
struct Market {
    hall: Hall,
    runtime: tokio::runtime::Runtime,
    _gpu: crate::hall::Running,
    agent: crate::hall::Running,
}

impl Market {
    fn new() -> Self {
        let hall = Hall::open();
        let gpu = simulate(&hall.place("gpu"), "8GiB");
        let agent = hall.agent("good", &hall.place("gpu"));
        hall.ready("good");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { hall, runtime, _gpu: gpu, agent }
    }

    /// The cluster's record, as its master keeps it.
    fn kept(&self) -> Kept {
        let text = std::fs::read(self.hall.place("master/cluster.json")).expect("the record");
        serde_json::from_slice(&text).expect("a record")
    }

    /// A member of this cluster under that name, by its own master.
    fn member(&self, name: &str) -> Identity {
        let invitation = format!("{}@{}", self.hall.token(), self.hall.address).parse().expect("a token");
        self.runtime.block_on(node::link::client::join(&invitation, name, "")).expect("to join")
    }

    /// Says these things over a stream of its own, and what comes of it: the refusal, or nothing.
    fn say(&self, identity: &Identity, said: Vec<Said>) -> Result<(), NoMaster> {
        self.runtime.block_on(async {
            let mut connection = Connection::open(&self.hall.address, member_tls(identity)?).await?;
            // The stream stays open: whoever ends it is the master.
            let said = stream::iter(said.into_iter().map(FromNode::from)).chain(stream::pending());
            let mut told = connection.attach(said).await?;
            while told.message().await.map_err(NoMaster::Said)?.is_some() {}
            Ok(())
        })
    }

    /// The refusal was told once, however often it was tried, and the honest node is where it was.
    fn told_once(&self, what: &str) {
        assert_eq!(self.hall.told(what), 1, "{}", self.hall.log());
        let node = self.hall.ready("good");
        assert!(node.age_us < 3_000_000, "{node:?}");
    }
}

fn hello(name: &str) -> Said {
    let gpu = Gpu { gpu: 0, name: "fast".to_owned(), memory_total: 1 << 40 };
    Said::Hello(Hello { name: name.to_owned(), gpus: vec![gpu] })
}

#[test]
fn nobody_reports_without_a_certificate() {
    let market = Market::new();
    let authority = market.hall.token().split('-').nth(1).expect("a digest").to_owned();
    for _ in 0..TRIES {
        let refused = market.runtime.block_on(async {
            let mut connection = Connection::open(&market.hall.address, stranger_tls(&authority)?).await?;
            connection.attach(stream::iter([hello("good").into()])).await.map(drop)
        });
        let refused = refused.expect_err("no stream").to_string();
        assert!(refused.contains("no certificate"), "{refused}");
    }
    market.told_once("it has no certificate");
}

#[test]
fn a_certificate_of_another_authority_is_worth_nothing() {
    let market = Market::new();
    let member = market.member("guest");
    let (certificate, key) = Authority::create().expect("an authority");
    let stranger = Authority::load(&certificate, &key).expect("an authority");
    let pair = rcgen::KeyPair::from_pem(&member.key).expect("a key");
    let request = rcgen::CertificateParams::default().serialize_request(&pair).and_then(|made| made.pem());
    let (signed, _) = stranger.for_agent("guest", &request.expect("a request")).expect("a certificate");
    // It trusts the right master, and shows the wrong certificate.
    let forged = Identity { certificate: signed, ..member };
    for _ in 0..TRIES {
        market.say(&forged, vec![hello("guest")]).expect_err("no stream");
    }
    market.told_once("its TLS handshake failed");
    // And a node that is invited by one authority does not believe another's master.
    let authority = stranger.digest();
    let opened = market.runtime.block_on(async {
        Connection::open(&market.hall.address, stranger_tls(&authority)?).await.map(drop)
    });
    assert!(matches!(opened, Err(NoMaster::Tls(..))), "{opened:?}");
}

#[test]
fn a_removed_node_is_out_at_once_and_its_certificate_stops_working() {
    let market = Market::new();
    let member = market.member("guest");
    let kept = market.kept();
    assert!(kept.nodes.contains_key("guest"));
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| report_elsewhere(&market.hall.address, &member));
        eventually("the guest in the list", || {
            market.hall.nodes().into_iter().find(|node| node.node == "guest")
        });
        succeeded(market.hall.cluster(&["remove", "guest"]));
        stream.join().expect("the stream's end");
    });
    assert!(!market.hall.nodes().iter().any(|node| node.node == "guest"));
    for _ in 0..TRIES {
        let refused = market.say(&member, vec![hello("guest")]).expect_err("no stream");
        assert!(refused.is_dismissal() && refused.to_string().contains("was removed"), "{refused}");
    }
    market.told_once("node guest was removed from the cluster");
    assert!(failed(market.hall.cluster(&["remove", "guest"])).contains("accepted are good"));
    // Its name is free again.
    market.member("guest");
}

/// Reports from another thread until the master ends the stream.
fn report_elsewhere(address: &str, identity: &Identity) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tls = member_tls(identity).expect("a certificate");
        let mut connection = Connection::open(address, tls).await.expect("a connection");
        let report = Reports { records: vec![1 << 5], sent_us: 0 };
        let said = stream::iter([hello("guest"), Said::Reports(report)].map(FromNode::from));
        let mut told = connection.attach(said.chain(stream::pending())).await.expect("a stream");
        while let Ok(Some(_)) = told.message().await {}
    });
}

#[test]
fn tokens_expire_and_can_be_rotated() {
    let market = Market::new();
    let old = market.hall.token();
    let rotated = succeeded(market.hall.cluster(&["token", "--rotate"]));
    assert_ne!(old, rotated.trim());
    let join = |token: &str, name: &str| {
        let invitation = format!("{}@{}", token.trim(), market.hall.address).parse().expect("a token");
        market.runtime.block_on(node::link::client::join(&invitation, name, ""))
    };
    // The master reads the record each second.
    let refused = eventually("an old token that is refused", || join(&old, "late").err()).to_string();
    assert!(refused.contains("not the cluster's"), "{refused}");
    assert_eq!(market.hall.told("its token is not the cluster's"), 1);
    eventually("a new token that is accepted", || join(&rotated, "newer").ok());
    let short = succeeded(market.hall.cluster(&["token", "--rotate", "--valid-for", "1ms"]));
    for _ in 0..TRIES {
        let refused = eventually("an expired token", || {
            let refused = join(&short, "later").expect_err("no certificate").to_string();
            refused.contains("has expired").then_some(refused)
        });
        assert!(refused.contains("cluster token --rotate"), "{refused}");
    }
    market.told_once("its token has expired");
    assert!(failed(market.hall.cluster(&["token"])).contains("has expired"));
    let kept = market.kept();
    assert_eq!(kept.nodes.keys().collect::<Vec<_>>(), ["good", "newer"]);
}

#[test]
fn no_node_reports_in_the_name_of_another() {
    let market = Market::new();
    let member = market.member("guest");
    for _ in 0..TRIES {
        let refused = market.say(&member, vec![hello("good")]).expect_err("no stream").to_string();
        assert!(refused.contains("in the name of 'good'"), "{refused}");
    }
    market.told_once("node guest reported in the name of 'good'");
    assert_eq!(market.hall.ready("good").gpu_memory_total_bytes, 8 << 30, "not the liar's");
    // Nor can it join with a name that is taken, though it has a token.
    let invitation = format!("{}@{}", market.hall.token(), market.hall.address).parse().expect("a token");
    let joined = market.runtime.block_on(node::link::client::join(&invitation, "good", ""));
    let refused = joined.expect_err("no certificate").to_string();
    assert!(refused.contains("has joined before"), "{refused}");
}

#[test]
fn oversized_and_malformed_frames_end_the_connection_and_nothing_else() {
    let market = Market::new();
    let member = market.member("guest");
    let long = KnownContainer { service: "x".repeat(300 << 10), ..KnownContainer::default() };
    let long = Said::Known(KnownContainers { containers: vec![long] });
    let broken = Said::Reports(Reports { records: vec![0xFF; 7], sent_us: 0 });
    for _ in 0..TRIES {
        let _ = market.say(&member, vec![hello("guest"), long.clone()]);
        let _ = market.say(&member, vec![hello("guest"), broken.clone()]);
        let _ = market.say(&member, vec![broken.clone()]);
        garbage_instead_of_http(&market.hall.address, &member);
        garbage_instead_of_tls(&market.hall.address);
    }
    market.told_once("message length too large");
    market.told_once("a report of layout 7");
    market.told_once("did not say who it is");
    market.told_once("its connection is no HTTP/2");
    market.told_once("its TLS handshake failed");
}

fn garbage_instead_of_tls(address: &str) {
    let mut stream = std::net::TcpStream::connect(address).expect("a connection");
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    let mut answer = Vec::new();
    // It ends, whatever it says.
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
}

fn garbage_instead_of_http(address: &str, member: &Identity) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let tls = tokio_rustls::TlsConnector::from(member_tls(member).expect("a certificate"));
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let name = wire::link::MASTER_NAME.try_into().expect("a name");
        let mut stream = tls.connect(name, stream).await.expect("TLS");
        let _ = stream.write_all(&[0x7F; 4096]).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    });
}

#[test]
fn an_agent_listens_to_nobody_and_keeps_its_key_to_itself() {
    let market = Market::new();
    assert_eq!(listening(market.agent.pid()), 0, "a member only ever connects");
    let gpu = market.hall.place("gpu");
    let alone = crate::hall::Running::start(&mut market.hall.agent_command("alone", &gpu));
    let socket = market.hall.place("alone/run/agent.sock");
    eventually("an agent that answers", || wire::client::get::<serde_json::Value>(&socket, "/v1/node").ok());
    assert_eq!(listening(alone.pid()), 0, "an agent alone opens no port");
    assert!(!folder(&market.hall.place("alone/state")).exists());
    let kept = Arc::new(market.kept());
    let key =
        std::fs::read_to_string(folder(&market.hall.place("good/state")).join("key.pem")).expect("a key");
    let body: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    assert!(!serde_json::to_string(&*kept).expect("JSON").contains(&body[body.len() - 40..]));
}

/// How many TCP sockets a process listens at.
fn listening(pid: u32) -> usize {
    let inodes: Vec<String> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("its files")
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let tables = ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/{pid}/net/{table}")));
    let lines: Vec<String> = tables
        .into_iter()
        .flatten()
        .flat_map(|table| table.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let listens = |line: &&String| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(3) == Some(&"0A")
            && fields.get(9).is_some_and(|inode| inodes.iter().any(|own| own == inode))
    };
    lines.iter().filter(listens).count()
}
