//! One stream to each master, kept up for as long as the agent runs.

use super::client::{Connection, NoMaster, member_tls};
use super::contact::{Contact, Word};
use super::farewells::Farewells;
use super::fence;
use super::identity::{self, Identity};
use super::stopped::StoppedFile;
use super::{Sayer, Snapshot};
use crate::commands::Command;
use crate::facts::{Teller, Told};
use futures_util::stream;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio_rustls::rustls::ClientConfig;
use wire::link::{
    FromMaster, FromNode, HEARTBEAT_MS, Hello, Reports, Said, Stopped, Told as FromTheMaster, Withdrawn,
};

/// The first wait before connecting again, doubled each time.
const WAIT_FIRST: Duration = Duration::from_millis(100);
/// The longest: a master that starts anew hears of everybody within a heartbeat.
const WAIT_MAX: Duration = Duration::from_millis(HEARTBEAT_MS);
/// No two reports come closer.
const GAP_LEAST: Duration = Duration::from_millis(10);
/// A node that has found no GPU by then greets without any.
const GPUS_FOUND_WITHIN: Duration = Duration::from_secs(3);
/// How many messages may wait for a master that does not read.
const SAID_QUEUED_MAX: usize = 64;
/// How often it is looked whether the certificate is old.
const RENEW_LOOK_EVERY: Duration = Duration::from_hours(1);

/// What all streams share.
#[derive(Clone)]
struct Member {
    name: String,
    tls: Arc<ClientConfig>,
    snapshots: watch::Receiver<Snapshot>,
    teller: Teller,
    contact: Arc<Contact>,
    farewells: Arc<Farewells>,
    /// What was stopped here.
    stopped: watch::Receiver<Stopped>,
    /// Where masters are told of.
    masters: mpsc::Sender<Vec<String>>,
}

/// Reports to every master from now on, if this node is a member of a cluster. Whether it is.
pub(crate) fn start(config: &crate::Config, snapshots: watch::Receiver<Snapshot>, teller: &Teller) -> bool {
    let folder = identity::folder(&config.state_dir);
    let identity = match Identity::load(&folder) {
        Ok(None) => return false,
        Ok(Some(identity)) => identity,
        Err(error) => {
            eprintln!("warning: this node's certificate cannot be read, and it reports to nobody: {error}");
            return false;
        }
    };
    let tls = match member_tls(&identity) {
        Ok(tls) => tls,
        Err(wrong) => {
            eprintln!("warning: it reports to nobody: {wrong}");
            return false;
        }
    };
    let farewells = Arc::new(Farewells::new(&config.run_dir));
    let contact = Arc::new(Contact::new(identity.masters.clone(), farewells.take()));
    farewells.keep(&contact);
    let (masters, told) = mpsc::channel(SAID_QUEUED_MAX);
    let file = StoppedFile::new(&config.run_dir);
    let (stopping, stopped) = watch::channel(Stopped { placements: file.read(), ..Stopped::default() });
    tokio::spawn(fence::keep(Arc::clone(&contact), teller.clone(), file, stopping));
    let (name, teller) = (config.node.clone(), teller.clone());
    let member = Member { name, tls, snapshots, teller, contact, farewells, stopped, masters };
    tokio::spawn(keep_all(member, identity, folder, told));
    true
}

/// A stream for each master there is, and none for those that are gone.
async fn keep_all(
    mut member: Member,
    mut identity: Identity,
    folder: PathBuf,
    mut told: mpsc::Receiver<Vec<String>>,
) {
    let mut streams: HashMap<String, AbortHandle> = HashMap::new();
    let mut renew = tokio::time::interval(RENEW_LOOK_EVERY);
    loop {
        for address in &identity.masters {
            if !streams.contains_key(address) {
                let kept = tokio::spawn(keep(member.clone(), address.clone()));
                streams.insert(address.clone(), kept.abort_handle());
            }
        }
        streams.retain(|address, kept| {
            let stays = identity.masters.contains(address);
            if !stays {
                kept.abort();
            }
            stays
        });
        tokio::select! {
            masters = told.recv() => {
                let Some(masters) = masters else { return };
                if masters != identity.masters && !masters.is_empty() {
                    identity.masters = masters;
                    member.contact.set_masters(identity.masters.clone());
                    if let Err(error) = identity.save_masters(&folder) {
                        eprintln!("warning: the masters' addresses could not be kept: {error}");
                    }
                }
            }
            _ = renew.tick() => if let Some(newer) = renewed(&identity, &folder, &member).await {
                if let Ok(tls) = member_tls(&newer) {
                    member.tls = tls;
                    // All of them begin anew, and show the new certificate.
                    streams.drain().for_each(|(_, kept)| kept.abort());
                }
                identity = newer;
            },
        }
    }
}

/// A newer certificate, if the one there is old and a master gives one.
async fn renewed(identity: &Identity, folder: &std::path::Path, member: &Member) -> Option<Identity> {
    let request = identity.renewal(SystemTime::now())?;
    for address in &identity.masters {
        let Ok(mut connection) = Connection::open(address, Arc::clone(&member.tls)).await else { continue };
        match connection.renew(request.clone()).await {
            Err(no) => eprintln!("warning: this node's certificate was not renewed: {no}"),
            Ok(answer) => {
                let newer = identity.clone().renewed(answer);
                if let Err(error) = newer.save(folder) {
                    eprintln!("warning: this node's new certificate could not be kept: {error}");
                }
                return Some(newer);
            }
        }
    }
    None
}

/// Keeps one stream up.
async fn keep(member: Member, address: String) {
    let mut wait = WAIT_FIRST;
    let mut said = None;
    loop {
        let ended = stream_once(&member, &address).await;
        member.farewells.keep(&member.contact);
        if matches!(ended, Ok(()) | Err(NoMaster::Lost(_))) {
            (wait, said) = (WAIT_FIRST, None);
        }
        if let Err(why) = ended {
            if why.is_dismissal() {
                member.contact.renew();
            }
            let why = why.to_string();
            if said.as_ref() != Some(&why) {
                eprintln!("warning: this node does not report to {address} now: {why}");
                said = Some(why);
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// One connection, from the greeting to its end.
async fn stream_once(member: &Member, address: &str) -> Result<(), NoMaster> {
    let mut connection = Connection::open(address, Arc::clone(&member.tls)).await?;
    let (sender, receiver) = mpsc::channel::<FromNode>(SAID_QUEUED_MAX);
    let mut snapshots = member.snapshots.clone();
    // An agent that has just started has not found its GPUs yet.
    let found = snapshots.wait_for(|snapshot| !snapshot.gpus.is_empty());
    let _ = tokio::time::timeout(GPUS_FOUND_WITHIN, found).await;
    let first = snapshots.borrow().clone();
    let hello = Hello { name: member.name.clone(), gpus: first.gpus.clone() };
    let _ = sender.try_send(Said::Hello(hello).into());
    let said =
        stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|said| (said, receiver)) });
    let mut from_master = connection.attach(said).await?;
    let mut open = Open { contact: &member.contact, address, word: None };
    eprintln!("notice: this node reports to {address}");
    let talking = say(member, &first, &sender);
    tokio::pin!(talking);
    let mut stopped = member.stopped.clone();
    // A master that was away hears of it, too; of nothing it need not.
    if *stopped.borrow() != Stopped::default() {
        stopped.mark_changed();
    }
    let ended = loop {
        tokio::select! {
            () = &mut talking => break Ok(()),
            Ok(()) = stopped.changed() => {
                let told = stopped.borrow_and_update().clone();
                let _ = sender.send(Said::Stopped(told).into()).await;
            }
            told = from_master.message() => match told {
                Ok(Some(told)) => hear(member, told, &sender, &mut open).await,
                Ok(None) => break Err(NoMaster::Lost("the master closed it".to_owned())),
                Err(status) => break Err(NoMaster::Lost(status.message().to_owned())),
            },
        }
    };
    drop(open);
    ended
}

/// Says what changes, and that nothing did. It ends when the GPUs are others, and the greeting must be said anew.
async fn say(member: &Member, first: &Snapshot, sender: &mpsc::Sender<FromNode>) {
    let heartbeat = Duration::from_millis(HEARTBEAT_MS);
    let mut snapshots = member.snapshots.clone();
    let mut sayer = Sayer::default();
    loop {
        let now = snapshots.borrow_and_update().clone();
        if now.gpus != first.gpus {
            return;
        }
        let containers = sayer.containers(&now).map(Said::Known);
        // Nothing to report is a heartbeat, unless something was said just now.
        let report = sayer.report(&now).map(Said::Reports);
        let report = report.or_else(|| containers.is_none().then(|| Said::Reports(Reports::default())));
        for said in [report, containers].into_iter().flatten() {
            if sender.send(said.into()).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(GAP_LEAST).await;
        if let Ok(Err(_)) = tokio::time::timeout(heartbeat, snapshots.changed()).await {
            return;
        }
    }
}

async fn hear(member: &Member, told: FromMaster, sender: &mpsc::Sender<FromNode>, open: &mut Open<'_>) {
    match told.told {
        Some(FromTheMaster::Welcome(welcome)) => {
            open.is_told(match (welcome.led, welcome.lost) {
                (false, _) => Word::Leaderless,
                (true, true) => Word::Lost,
                (true, false) => Word::Stay,
            });
            member.farewells.keep(&member.contact);
            let _ = member.masters.send(welcome.masters).await;
        }
        Some(FromTheMaster::Offer(offer)) => {
            let (to, answer) = oneshot::channel();
            member.teller.tell_soon(Told::Command(Command::Admit(offer, to))).await;
            if let Ok(answer) = answer.await {
                let _ = sender.send(Said::Answer(answer).into()).await;
            }
        }
        Some(FromTheMaster::Withdrawn(Withdrawn { placement })) => {
            member.teller.tell_soon(Told::Command(Command::Withdraw(placement))).await;
        }
        Some(FromTheMaster::Farewell(_)) => open.contact.farewell(open.address, true),
        None => {}
    }
}

/// A stream that is open, as long as this lives, and what its master says of this node.
struct Open<'a> {
    contact: &'a Contact,
    address: &'a str,
    word: Option<Word>,
}

impl Open<'_> {
    fn is_told(&mut self, word: Word) {
        self.contact.farewell(self.address, false);
        self.contact.change(self.word, Some(word));
        self.word = Some(word);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.contact.change(self.word, None);
    }
}
