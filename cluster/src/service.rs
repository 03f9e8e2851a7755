//! The three calls of a master: join, renew, attach. Who asks is known from the connection, never from the message.

use crate::book::{Book, Session, TOLD_QUEUED_MAX};
use crate::certificates::{NoCertificate, same_secret};
use crate::clock;
use crate::door::Peer;
use crate::master::Master;
use crate::store::{NoRecord, Store};
use futures_util::{Stream, StreamExt, stream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use wire::kept::{Kept, KeptNode};
use wire::link::{
    ATTACH, FromMaster, FromNode, Hello, JOIN, JoinAnswer, JoinRequest, MESSAGE_BYTES_MAX, RENEW, Reports,
    Said,
};

type Answers = Pin<Box<dyn Stream<Item = Result<FromMaster, Status>> + Send>>;

/// Answers one call.
pub(crate) async fn answer(
    master: Arc<Master>,
    peer: Peer,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<Body> {
    let (told, address) = (Arc::clone(&master), peer.address);
    let response = match request.uri().path() {
        JOIN => {
            let join = move |asked: Request<JoinRequest>| {
                let (master, peer) = (Arc::clone(&master), peer.clone());
                async move { joined(&master, &peer, asked.into_inner()).await.map(Response::new) }
            };
            grpc_unary().unary(tower::service_fn(join), request).await
        }
        RENEW => {
            let renew = move |asked: Request<JoinRequest>| {
                let (master, peer) = (Arc::clone(&master), peer.clone());
                async move { renewed(&master, &peer, &asked.into_inner()).map(Response::new) }
            };
            grpc_unary().unary(tower::service_fn(renew), request).await
        }
        ATTACH => {
            let codec = ProstCodec::<FromMaster, FromNode>::default();
            let mut grpc = tonic::server::Grpc::new(codec).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let attach = move |asked: Request<Streaming<FromNode>>| {
                let (master, peer) = (Arc::clone(&master), peer.clone());
                async move { attached(master, peer, asked.into_inner()).await.map(Response::new) }
            };
            grpc.streaming(tower::service_fn(attach), request).await
        }
        _ => Status::unimplemented("there is no such call").into_http(),
    };
    // Every refusal before a stream begins is told here, whoever refused; those of a stream where they happen.
    if let Some(status) = Status::from_header_map(response.headers())
        && status.code() != Code::Ok
    {
        told.complaints.tell(address, status.message());
    }
    response
}

fn grpc_unary() -> tonic::server::Grpc<ProstCodec<JoinAnswer, JoinRequest>> {
    tonic::server::Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// A node with a token becomes a node with a certificate.
async fn joined(master: &Master, peer: &Peer, asked: JoinRequest) -> Result<JoinAnswer, Status> {
    // As last read, so that whoever guesses costs the engine nothing. A new token is good within a second.
    check_secret(&master.kept(), &asked)?;
    // Read anew: a token that was rotated a moment ago lets nobody in.
    let Ok(kept) = master.store.read().await else {
        return Err(Status::unavailable("the cluster's record cannot be read now"));
    };
    check_secret(&kept, &asked)?;
    if clock::wall_now_us() >= kept.secret_until_us {
        return Err(Status::permission_denied(
            "its token has expired: `leeway cluster token --rotate` makes a new one",
        ));
    }
    let (certificate, key) =
        master.authority.for_agent(&asked.name, &asked.request).map_err(|wrong| refusal(&wrong))?;
    let node = KeptNode { engine_id: asked.engine_id, key };
    let entered = master.store.change(|kept| {
        let name = &asked.name;
        if kept.nodes.get(name).is_some_and(|known| *known != node) {
            let how = format!("`leeway cluster remove {name}` lets it join anew");
            return Err(format!("node {name} has joined before, with another key: {how}"));
        }
        kept.nodes.insert(name.clone(), node.clone());
        while Store::is_full(kept) && !kept.removed.is_empty() {
            kept.removed.remove(0);
        }
        if Store::is_full(kept) {
            return Err(format!(
                "the cluster's record is full, with {} nodes: {} makes room",
                kept.nodes.len() - 1,
                "`leeway cluster remove` of those that are gone"
            ));
        }
        Ok(())
    });
    match entered.await {
        Ok(((), kept)) => master.set_kept(kept),
        Err(NoRecord::Refused(why)) => return Err(Status::already_exists(why)),
        Err(other) => {
            eprintln!("error: {other}: {:?}", std::error::Error::source(&other));
            return Err(Status::unavailable("the cluster's record cannot be written now"));
        }
    }
    eprintln!("notice: node {} has joined from {}", asked.name, peer.address);
    Ok(JoinAnswer { certificate, authority: master.authority.certificate.clone(), masters: master.masters() })
}

fn check_secret(kept: &Kept, asked: &JoinRequest) -> Result<(), Status> {
    let shows = "`leeway cluster token` shows the one that is";
    let refusal = || Status::permission_denied(format!("its token is not the cluster's: {shows}"));
    same_secret(&kept.secret, &asked.secret).then_some(()).ok_or_else(refusal)
}

/// A node's certificate is made anew, for the key it has.
fn renewed(master: &Master, peer: &Peer, asked: &JoinRequest) -> Result<JoinAnswer, Status> {
    let (name, _) = member(master, &master.book(), peer)?;
    let (certificate, key) =
        master.authority.for_agent(&name, &asked.request).map_err(|wrong| refusal(&wrong))?;
    if peer.identity.as_ref().is_none_or(|identity| identity.key != key) {
        return Err(Status::permission_denied(format!(
            "node {name} asked for a certificate for another key"
        )));
    }
    Ok(JoinAnswer { certificate, authority: master.authority.certificate.clone(), masters: master.masters() })
}

fn refusal(wrong: &NoCertificate) -> Status {
    Status::invalid_argument(wrong.to_string())
}

/// The node that speaks, and what the engine calls it.
fn member(master: &Master, book: &Book, peer: &Peer) -> Result<(String, String), Status> {
    let Some(identity) = &peer.identity else {
        return Err(Status::unauthenticated("it has no certificate"));
    };
    let Some(engine_id) = master.may_report(identity) else {
        return Err(dismissal(
            &identity.name,
            master.is_led(),
            master.kept().was_removed(&identity.key),
            book,
        ));
    };
    Ok((identity.name.clone(), engine_id))
}

/// What a node hears that is no member: whether it may run on what it runs. It may where the code is `NotFound`, which no other refusal
/// has. Who may have an old record does not say so, nor does anybody of a node that swarm has lost, for that is emptied.
fn dismissal(name: &str, is_led: bool, removed: Option<&str>, book: &Book) -> Status {
    match removed {
        _ if !is_led => {
            Status::unavailable(format!("node {name} is not known here, where swarm has no leader"))
        }
        None => Status::unavailable(format!("node {name} is not known here")),
        Some(engine_id) if book.has_lost(engine_id) => {
            Status::unavailable(format!("node {name} was removed from the cluster, and swarm has lost it"))
        }
        Some(_) => Status::not_found(format!("node {name} was removed from the cluster")),
    }
}

/// An agent reports from now on.
async fn attached(master: Arc<Master>, peer: Peer, mut said: Streaming<FromNode>) -> Result<Answers, Status> {
    let (name, engine_id) = member(&master, &master.book(), &peer)?;
    let first = said.message().await?.and_then(|first| first.said);
    let Some(Said::Hello(hello)) = first else {
        return Err(Status::invalid_argument(format!("node {name} did not say who it is")));
    };
    if hello.name != name {
        let claimed: String = hello.name.chars().take(64).collect();
        return Err(Status::permission_denied(format!("node {name} reported in the name of '{claimed}'")));
    }
    let (sender, receiver) = mpsc::channel(TOLD_QUEUED_MAX);
    let welcome = master.welcome();
    let session = {
        let mut book = master.book();
        // Looked at again: it may have been removed while it thought about its first words.
        member(&master, &book, &peer)?;
        let session = book.attach(&engine_id, &hello, sender);
        book.welcome(session, &welcome);
        session
    };
    tokio::spawn(listen(Arc::clone(&master), peer, hello, session, said));
    let told = stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|told| (Ok(told), receiver))
    });
    // The stream ends when the book drops its sender: somebody else came with the name, or the node was removed.
    Ok(told.boxed())
}

/// Takes in what an agent says, until it has nothing more to say or says something that cannot be.
async fn listen(
    master: Arc<Master>,
    peer: Peer,
    hello: Hello,
    session: Session,
    mut said: Streaming<FromNode>,
) {
    let wrong = loop {
        match said.message().await {
            // Its sender is gone: it may not report any more, or came a second time.
            Ok(Some(_)) if !master.book().holds(session) => break None,
            Ok(Some(FromNode { said: Some(said) })) => {
                if let Err(wrong) = take(&master, session, said) {
                    break Some(wrong);
                }
            }
            Ok(Some(FromNode { said: None })) => break Some("a message that says nothing".to_owned()),
            Err(status) if is_wrong(&status) => break Some(status.message().to_owned()),
            // It has ended, or the connection broke, which is no wrong of the node's.
            Ok(None) | Err(_) => break None,
        }
    };
    master.book().detach(session);
    if let Some(wrong) = wrong {
        master.complaints.tell(peer.address, &format!("node {} sent {wrong}", hello.name));
    }
}

/// What a node did wrong, and not the network.
fn is_wrong(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::OutOfRange | Code::Internal | Code::InvalidArgument | Code::ResourceExhausted
    ) && std::error::Error::source(status).is_none()
}

fn take(master: &Master, session: Session, said: Said) -> Result<(), String> {
    match said {
        Said::Hello(_) => return Err("a second greeting".to_owned()),
        Said::Reports(Reports { records, sent_us }) => {
            master.counts.reports.fetch_add(1, Ordering::Relaxed);
            master.counts.report_bytes.fetch_add(records.len() as u64, Ordering::Relaxed);
            if sent_us > 0 {
                let lag = clock::wall_now_us() - sent_us;
                master.counts.lag.note(u64::try_from(lag).unwrap_or(0));
            }
            master.book().report(session, &records).map_err(|wrong| wrong.to_string())?;
        }
        Said::Known(known) => master.book().learn(session, known.containers),
        Said::Stopped(stopped) => master.book().learn_stopped(session, stopped),
        Said::Answer(answer) => master.book().answered(session.node, answer.offer, Some(answer)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::View;
    use std::collections::HashSet;

    #[test]
    fn a_removed_node_runs_on_only_while_swarm_has_it() {
        let mut book = Book::new();
        let mut told = |is_led: bool, removed: Option<&str>, known: &[&str], down: &[&str]| {
            let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<String>>();
            let known = Some(HashSet::from_iter(owned(known)));
            book.set_view(clock::now(), View { known, down: owned(down), ..View::default() });
            dismissal("a", is_led, removed, &book).code()
        };
        assert_eq!(told(true, Some("e"), &["e"], &[]), Code::NotFound);
        assert_eq!(told(true, Some("e"), &["e"], &["e"]), Code::Unavailable, "its Docker has crashed");
        assert_eq!(told(true, Some("e"), &["f"], &[]), Code::Unavailable, "it is out of the swarm");
        assert_eq!(told(true, None, &["e"], &[]), Code::Unavailable, "nobody knows which node it is");
        assert_eq!(told(false, Some("e"), &["e"], &[]), Code::Unavailable, "the record may be old");
    }
}
