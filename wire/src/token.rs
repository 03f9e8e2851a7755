//! The token that lets a node join: which authority to trust, and a secret that the authority knows.
//!
//! `leeway1-<digest of the authority's certificate>-<secret>`, both in hexadecimal. The digest lets a node know its master
//! before it has any certificate of the cluster.

use crate::link::PORT;
use std::fmt;
use std::str::FromStr;

/// How a token starts; the number is its layout's.
const PREFIX: &str = "leeway1";
/// Hexadecimal digits of a SHA-256 digest.
const DIGEST_DIGITS: usize = 64;
/// The secret's digits.
pub const SECRET_DIGITS: usize = 40;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The SHA-256 digest of the authority's certificate.
    pub authority: String,
    /// What only those know who may join.
    pub secret: String,
}

/// A token, and whom to show it: `TOKEN@HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The token.
    pub token: Token,
    /// The master's address.
    pub address: String,
}

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// It is cut short, or something else.
    #[error("this is not a token: one looks like {PREFIX}-<64 hexadecimal digits>-<40 hexadecimal digits>")]
    Token,
    /// There is no address behind it.
    #[error("the token lacks its address: accepted is TOKEN@HOST:PORT")]
    Address,
    /// The address has no port.
    #[error(
        "the address behind the token lacks its port: accepted is TOKEN@HOST:PORT, and {PORT} is a master's usual port"
    )]
    Port,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}-{}-{}", self.authority, self.secret)
    }
}

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let is_hex =
            |part: &&str, digits| part.len() == digits && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut parts = text.trim().split('-');
        let (prefix, authority, secret, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
        let authority = authority.filter(|part| is_hex(part, DIGEST_DIGITS));
        let secret = secret.filter(|part| is_hex(part, SECRET_DIGITS));
        match (prefix, authority, secret, rest) {
            (Some(PREFIX), Some(authority), Some(secret), None) => {
                Ok(Self { authority: authority.to_lowercase(), secret: secret.to_lowercase() })
            }
            _ => Err(NoToken::Token),
        }
    }
}

impl FromStr for Invitation {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let (token, address) = text.split_once('@').ok_or(NoToken::Address)?;
        // An IPv6 address without its brackets ends like one with a port.
        let split = address.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = split.unwrap_or((address, ""));
        if host.is_empty() {
            return Err(NoToken::Address);
        }
        port.parse::<u16>().ok().filter(|port| *port > 0).ok_or(NoToken::Port)?;
        Ok(Self { token: token.parse()?, address: address.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = Token { authority: "a1".repeat(32), secret: "b2".repeat(20) };
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        let invited: Invitation = format!("{token}@gpu-1:7843").parse().unwrap();
        assert_eq!((invited.token, invited.address.as_str()), (token.clone(), "gpu-1:7843"));
        let invited: Invitation = format!("{token}@[fd00::1]:7843").parse().unwrap();
        assert_eq!(invited.address, "[fd00::1]:7843");
        for (wrong, why) in [
            (format!("{token}x@h:1"), NoToken::Token),
            (format!("{token}@h"), NoToken::Port),
            (format!("{token}@h:0"), NoToken::Port),
            (format!("{token}@fd00::1"), NoToken::Port),
            (format!("{token}@"), NoToken::Address),
            (format!("{token}@:7"), NoToken::Address),
            (token.to_string(), NoToken::Address),
            ("leeway2-a-b@h:1".to_owned(), NoToken::Token),
        ] {
            assert_eq!(wrong.parse::<Invitation>(), Err(why), "{wrong}");
        }
    }
}
