//! The one port of a master: TLS first, then HTTP/2, then one of three calls.
//!
//! Whoever shows a certificate must show one that the cluster's authority signed, or the handshake ends. Whoever shows none, or that
//! of a node that was removed, may only ask to join, and soon.

mod turns;

use crate::certificates::{Authority, Identity, NoCertificate, identity};
use crate::master::Master;
use crate::service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use turns::Turns;

/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long somebody without a certificate may stay.
const STRANGER_STAY_MAX: Duration = Duration::from_secs(10);
/// How many of them at a time.
const STRANGERS_MAX: usize = 64;
/// How many handshakes at a time: a restart brings everybody at once, and each takes some processor time.
const HANDSHAKES_MAX: usize = 1024;
/// How many of them from one address: one that opens connections and says nothing keeps nobody else out.
const HANDSHAKES_OF_ONE_MAX: usize = 64;
/// How often a master makes itself a new certificate.
const RENEW_EVERY: Duration = Duration::from_hours(24 * 30);
/// How often a connection on which nothing comes is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Small, for there are thousands of connections, and messages are short.
const WINDOW_BYTES: u32 = 64 << 10;
/// How long to wait when the kernel gives no connection, for lack of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Who is at the other end.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Nothing for somebody without a certificate.
    pub(crate) identity: Option<Identity>,
}

/// The TLS of a master: its certificate, and whose are believed.
pub(crate) fn tls(authority: &Authority) -> Result<TlsAcceptor, NoCertificate> {
    let wrong = |_| NoCertificate::Made(rcgen::Error::CouldNotParseCertificate);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).map_err(wrong)?;
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|_| NoCertificate::Made(rcgen::Error::CouldNotParseCertificate))?;
    let (certificate, key) = authority.for_master()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(wrong)?
        .with_client_cert_verifier(clients)
        // With the authority's own, by whose digest a node that joins knows us.
        .with_single_cert(vec![certificate, authority.der()], key)
        .map_err(wrong)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Whoever was removed must not come back by a ticket, and a thousand tickets are memory.
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Lets people in, for ever.
pub(crate) async fn keep(master: Arc<Master>, listener: TcpListener, mut tls: TlsAcceptor) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let turns = Turns::new(HANDSHAKES_OF_ONE_MAX);
    let mut made = Instant::now();
    loop {
        if made.elapsed() >= RENEW_EVERY {
            made = Instant::now();
            // Where none can be made the one there is good for most of a year.
            tls = self::tls(&master.authority).unwrap_or(tls);
        }
        // Beyond that the kernel's queue is where to wait.
        let Ok(turn) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let address = address.ip().to_canonical();
        let Some(own) = turns.take(address) else {
            master.complaints.tell(address, "too many TLS handshakes at once");
            continue;
        };
        let (master, tls, strangers) = (Arc::clone(&master), tls.clone(), Arc::clone(&strangers));
        tokio::spawn(async move {
            let shaken = timeout(HANDSHAKE_MAX, shake(&tls, stream)).await;
            drop((turn, own));
            match shaken {
                Err(_) => master.complaints.tell(address, "its TLS handshake took too long"),
                Ok(Err(wrong)) => {
                    master.complaints.tell(address, &format!("its TLS handshake failed: {wrong}"));
                }
                Ok(Ok(stream)) => let_in(&master, stream, address, &strangers).await,
            }
        });
    }
}

type Stream = tokio_rustls::server::TlsStream<TcpStream>;

async fn shake(tls: &TlsAcceptor, stream: TcpStream) -> std::io::Result<Stream> {
    let _ = stream.set_nodelay(true);
    tls.accept(stream).await
}

async fn let_in(master: &Arc<Master>, stream: Stream, address: IpAddr, strangers: &Semaphore) {
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let peer = Peer { address, identity: shown.and_then(identity) };
    if peer.identity.as_ref().is_some_and(|identity| master.may_report(identity).is_some()) {
        return serve(master, stream, peer).await;
    }
    let Ok(_turn) = strangers.try_acquire() else {
        return master.complaints.tell(address, "too many connections without a member's certificate");
    };
    let _ = timeout(STRANGER_STAY_MAX, serve(master, stream, peer)).await;
}

async fn serve(master: &Arc<Master>, stream: Stream, peer: Peer) {
    let address = peer.address;
    let master_here = Arc::clone(master);
    let answer = hyper::service::service_fn(move |request| {
        let (master, peer) = (Arc::clone(&master_here), peer.clone());
        async move { Ok::<_, Infallible>(service::answer(master, peer, request).await) }
    });
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(8 << 10)
        .max_concurrent_streams(4);
    let served = http.serve_connection(TokioIo::new(stream), answer).await;
    if let Err(wrong) = served {
        // A connection that breaks is no wrong; what is no HTTP/2 is.
        let broken = wrong.is_timeout() || is_io(&wrong);
        if !broken {
            master.complaints.tell(address, &format!("its connection is no HTTP/2: {}", innermost(&wrong)));
        }
    }
}

fn is_io(wrong: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(wrong);
    while let Some(one) = cause {
        if let Some(h2) = one.downcast_ref::<std::io::Error>() {
            return h2.kind() != std::io::ErrorKind::InvalidData;
        }
        cause = one.source();
    }
    wrong.is_closed() || wrong.is_incomplete_message()
}

fn innermost(wrong: &dyn std::error::Error) -> String {
    let mut last = wrong;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
