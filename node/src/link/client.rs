//! A connection to a master: TCP, TLS, HTTP/2, and the calls of [`wire::link`] over it.

use super::identity::{Identity, digest, new_key};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring as with_ring, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tonic::body::Body;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use wire::link::{
    ATTACH, FromMaster, FromNode, JOIN, JoinAnswer, JoinRequest, MASTER_NAME, MESSAGE_BYTES_MAX, RENEW,
};
use wire::token::Invitation;

/// How long connecting may take, TLS and all.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often a silent connection is asked whether it lives, and how long the answer may take: a cut is known in 8 seconds.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(4);

/// Why a master could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum NoMaster {
    /// Nobody listens there, but the machine is there.
    #[error("no master listens at {0}")]
    Refused(String),
    /// Nothing comes back.
    #[error("the master at {0} cannot be reached: {1}")]
    Unreachable(String, String),
    /// It is somebody else, or it takes us for somebody else.
    #[error("the connection to {0} is not secure: {1}")]
    Tls(String, String),
    /// It said no.
    #[error("the master refused: {}", .0.message())]
    Said(Status),
    /// The stream ended.
    #[error("the stream ended: {0}")]
    Lost(String),
    /// Our own key or certificate cannot be used.
    #[error("this node's key or certificate cannot be used: {0}")]
    Own(String),
}

impl NoMaster {
    /// A master, known by its certificate, says that this node is no member any more, and that swarm has it. What it ran it runs on:
    /// nobody places that elsewhere until swarm has lost the node, which then hears another answer.
    pub fn is_dismissal(&self) -> bool {
        matches!(self, Self::Said(status) if status.code() == Code::NotFound)
    }
}

/// What carries calls.
type Carrier = hyper::client::conn::http2::SendRequest<Body>;

/// A connection that is open. It ends when this is dropped, or when it breaks.
pub struct Connection {
    carrier: Carrier,
}

/// TLS as a member: our certificate, and whose is believed.
pub fn member_tls(identity: &Identity) -> Result<Arc<ClientConfig>, NoMaster> {
    let wrong = |error: rustls::Error| NoMaster::Own(error.to_string());
    let unreadable = || NoMaster::Own("it is no PEM".to_owned());
    let mut roots = RootCertStore::empty();
    roots.add(identity.authority_der().ok_or_else(unreadable)?).map_err(wrong)?;
    let config = ClientConfig::builder_with_provider(Arc::new(with_ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(wrong)?
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![identity.certificate_der().ok_or_else(unreadable)?],
            identity.key_der().ok_or_else(unreadable)?,
        );
    Ok(with_http2(config.map_err(wrong)?))
}

/// TLS as somebody who has a token only: the authority is known by its digest.
pub fn stranger_tls(authority: &str) -> Result<Arc<ClientConfig>, NoMaster> {
    let provider = Arc::new(with_ring::default_provider());
    let verifier = KnownByDigest { authority: authority.to_owned(), provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| NoMaster::Own(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(with_http2(config))
}

fn with_http2(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A handshake a year is no reason to keep tickets.
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

/// Asks to join, with a new key.
pub async fn join(invitation: &Invitation, name: &str, engine_id: &str) -> Result<Identity, NoMaster> {
    let (key, request) = new_key().map_err(NoMaster::Own)?;
    let tls = stranger_tls(&invitation.token.authority)?;
    let mut connection = Connection::open(&invitation.address, tls).await?;
    let asked = JoinRequest {
        secret: invitation.token.secret.clone(),
        name: name.to_owned(),
        engine_id: engine_id.to_owned(),
        request,
    };
    let answer = connection.ask(JOIN, asked).await?;
    let mut masters = answer.masters;
    if !masters.contains(&invitation.address) {
        masters.insert(0, invitation.address.clone());
    }
    Ok(Identity { key, certificate: answer.certificate, authority: answer.authority, masters })
}

impl Connection {
    /// Connects.
    pub async fn open(address: &str, tls: Arc<ClientConfig>) -> Result<Self, NoMaster> {
        let opened = tokio::time::timeout(CONNECT_MAX, Self::open_soon(address, tls)).await;
        opened.unwrap_or_else(|_| {
            Err(NoMaster::Unreachable(address.to_owned(), "it does not answer".to_owned()))
        })
    }

    async fn open_soon(address: &str, tls: Arc<ClientConfig>) -> Result<Self, NoMaster> {
        let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => NoMaster::Refused(address.to_owned()),
            _ => NoMaster::Unreachable(address.to_owned(), error.to_string()),
        })?;
        let _ = stream.set_nodelay(true);
        let insecure = |error: io::Error| NoMaster::Tls(address.to_owned(), error.to_string());
        let name = ServerName::try_from(MASTER_NAME).map_err(|error| NoMaster::Own(error.to_string()))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(insecure)?;
        let mut http = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(64 << 10);
        let (carrier, connection) = http
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| NoMaster::Unreachable(address.to_owned(), error.to_string()))?;
        // It ends by itself when the carrier is dropped, or when the other end does not answer any more.
        tokio::spawn(connection);
        Ok(Self { carrier })
    }

    /// One question, one answer.
    async fn ask(&mut self, path: &'static str, asked: JoinRequest) -> Result<JoinAnswer, NoMaster> {
        let mut grpc = self.grpc();
        let ready = grpc.ready().await;
        ready.map_err(|error| NoMaster::Said(Status::unavailable(error.to_string())))?;
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = ProstCodec::<JoinRequest, JoinAnswer>::default();
        let answered = tokio::time::timeout(CONNECT_MAX, grpc.unary(Request::new(asked), path, codec)).await;
        let late = || Status::deadline_exceeded("it did not answer");
        let answered = answered.unwrap_or_else(|_| Err(late()));
        answered.map(tonic::Response::into_inner).map_err(NoMaster::Said)
    }

    /// Asks for a new certificate for the key we have.
    pub(super) async fn renew(&mut self, request: String) -> Result<JoinAnswer, NoMaster> {
        self.ask(RENEW, JoinRequest { request, ..JoinRequest::default() }).await
    }

    /// Reports from now on; what the master says comes back.
    pub async fn attach(
        &mut self,
        said: impl futures_util::Stream<Item = FromNode> + Send + 'static,
    ) -> Result<Streaming<FromMaster>, NoMaster> {
        let mut grpc = self.grpc();
        let ready = grpc.ready().await;
        ready.map_err(|error| NoMaster::Said(Status::unavailable(error.to_string())))?;
        let path = http::uri::PathAndQuery::from_static(ATTACH);
        let codec = ProstCodec::<FromNode, FromMaster>::default();
        let answered = grpc.streaming(Request::new(said), path, codec).await;
        answered.map(tonic::Response::into_inner).map_err(NoMaster::Said)
    }

    fn grpc(
        &self,
    ) -> tonic::client::Grpc<
        impl tonic::client::GrpcService<
            Body,
            ResponseBody = hyper::body::Incoming,
            Future: Send,
            Error = hyper::Error,
        > + use<>,
    > {
        let carrier = self.carrier.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let mut carrier = carrier.clone();
            async move {
                carrier.ready().await?;
                carrier.send_request(request).await
            }
        });
        let origin = http::Uri::from_static("https://master.leeway.internal");
        tonic::client::Grpc::with_origin(service, origin).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }
}

/// Believes a master whose authority has this digest, and nobody else.
#[derive(Debug)]
struct KnownByDigest {
    authority: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for KnownByDigest {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let known = chain.iter().find(|certificate| digest(certificate) == self.authority);
        let known = known.ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(known.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(shown, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
