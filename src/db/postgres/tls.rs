//! TLS to PostgreSQL, with the words of libpq: `sslmode` and `sslrootcert` in the address.
//!
//! `disable` never encrypts, `prefer` does when the server can, `require` always; none of them asks
//! who the server is, unless a root certificate is given. `verify-ca` asks whether its certificate
//! comes from somebody trusted, `verify-full` also whether it is for this host. Trusted is who signed
//! what is in the file, or else whom the system trusts.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// What an address asks of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Nothing, unless a root certificate is given.
    Any,
    /// That somebody trusted signed it.
    Issuer,
    /// That, and that it is for this host.
    Host,
}

/// An address, read.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// What the client library knows.
    pub(crate) config: Config,
    trust: Trust,
    /// The file with the certificates to trust; `system` as libpq has it, or nothing.
    root: Option<String>,
}

/// Reads an address; why it cannot be read is told without a piece of it: it may hold a password.
impl FromStr for Address {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (who, place) = match url.split_once('@') {
            Some((who, place)) => (format!("{who}@"), place),
            None => (String::new(), url),
        };
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let (mut mode, mut root, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root = Some(decoded(value)),
                _ => rest.push(pair),
            }
        }
        let rest = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        let mut config: Config = format!("{who}{place}{rest}").parse().map_err(
            |_| "the address cannot be read: write postgres://user:password@host:5432/name",
        )?;
        let (ssl, trust) = match mode.unwrap_or("prefer") {
            "disable" => (SslMode::Disable, Trust::Any),
            "prefer" => (SslMode::Prefer, Trust::Any),
            "require" => (SslMode::Require, Trust::Any),
            "verify-ca" => (SslMode::Require, Trust::Issuer),
            "verify-full" => (SslMode::Require, Trust::Host),
            _ => {
                return Err(
                    "its sslmode is unknown: write disable, prefer, require, verify-ca or verify-full",
                );
            }
        };
        config.ssl_mode(ssl);
        Ok(Self { config, trust, root })
    }
}

fn decoded(value: &str) -> String {
    // A plus is a plus here: this is no form.
    let value = value.replace('+', "%2B");
    url::form_urlencoded::parse(value.as_bytes()).map(|(name, _)| name.into_owned()).collect()
}

impl Address {
    /// What makes connections as the address wants them.
    pub(crate) fn connector(&self) -> Result<Connector, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Arc::new(self.verifier(&provider)?);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Connector(Arc::new(config).into()))
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Verifier, String> {
        let named = self.root.as_deref().filter(|root| *root != "system").map(PathBuf::from);
        let names = self.trust == Trust::Host || self.root.as_deref() == Some("system");
        let verifier =
            |issuers, pinned| Verifier { issuers, pinned, names, provider: Arc::clone(provider) };
        let Some(file) = named else {
            if self.trust == Trust::Any && self.root.is_none() {
                return Ok(verifier(None, Vec::new()));
            }
            let system = rustls_platform_verifier::Verifier::new(Arc::clone(provider))
                .map_err(|error| format!("the system's root certificates: {error}"))?;
            return Ok(verifier(Some(Arc::new(system)), Vec::new()));
        };
        let failed = |message: &str| format!("sslrootcert {}: {message}", file.display());
        let mut roots = RootCertStore::empty();
        let mut pinned = Vec::new();
        let found =
            CertificateDer::pem_file_iter(&file).map_err(|error| failed(&error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| failed(&error.to_string()))?;
            roots.add(certificate.clone()).map_err(|error| failed(&error.to_string()))?;
            pinned.push(certificate);
        }
        if pinned.is_empty() {
            return Err(failed("there is no certificate in it"));
        }
        let issuers =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| failed(&error.to_string()))?;
        Ok(verifier(Some(issuers), pinned))
    }
}

/// Judges a server's certificate.
#[derive(Debug)]
struct Verifier {
    /// Who has to have signed it; `None` when nobody cares.
    issuers: Option<Arc<dyn ServerCertVerifier>>,
    /// Certificates that are trusted as they are: servers often have one that they signed
    /// themselves.
    pinned: Vec<CertificateDer<'static>>,
    /// Whether it has to be for this host.
    names: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(issuers) = &self.issuers else { return Ok(ServerCertVerified::assertion()) };
        if self.pinned.iter().any(|pinned| pinned == certificate) {
            if self.names {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        // The name is looked at last: all else is well when only that is wrong.
        match issuers.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes encrypted connections.
#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = ToHost;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<ToHost, Self::Error> {
        Ok(ToHost { connector: self.0.clone(), name: ServerName::try_from(host.to_owned())? })
    }
}

/// Makes one connection to a host.
pub(crate) struct ToHost {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for ToHost
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Stream(self.connector.connect(self.name, stream).await?)) })
    }
}

/// An encrypted connection.
pub(crate) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_how_to_encrypt_and_whom_to_trust() {
        for (query, ssl, trust, root) in [
            ("", SslMode::Prefer, Trust::Any, None),
            ("?sslmode=disable", SslMode::Disable, Trust::Any, None),
            ("?sslmode=require", SslMode::Require, Trust::Any, None),
            ("?sslmode=verify-ca", SslMode::Require, Trust::Issuer, None),
            ("?sslmode=verify-full", SslMode::Require, Trust::Host, None),
            (
                "?sslmode=require&sslrootcert=/a%20b+c.pem",
                SslMode::Require,
                Trust::Any,
                Some("/a b+c.pem"),
            ),
            ("?application_name=x&sslrootcert=system", SslMode::Prefer, Trust::Any, Some("system")),
        ] {
            let url = format!("postgres://me:p%3F@host:5433/name{query}");
            let address: Address = url.parse().unwrap();
            assert_eq!((address.config.get_ssl_mode(), address.trust), (ssl, trust), "{query}");
            assert_eq!(address.root.as_deref(), root, "{query}");
            assert_eq!(address.config.get_password(), Some(&b"p?"[..]));
            assert_eq!(address.config.get_dbname(), Some("name"));
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_without_its_password() {
        for (url, words) in [
            ("postgres://me:secret@host:x/db", "cannot be read"),
            ("postgres://me:secret@host/db?sslmode=allow", "sslmode is unknown"),
            ("postgres://me:secret@host/db?sslcert=x", "cannot be read"),
        ] {
            assert!(url.parse::<Address>().unwrap_err().contains(words), "{url}");
        }
        let none: Address = "postgres://host/db?sslrootcert=/none.pem".parse().unwrap();
        assert!(none.connector().unwrap_err().contains("sslrootcert /none.pem"));
    }
}
