//! Whom a call comes from, as far as fairness needs to know it: a block of addresses, and nothing else of it.
//!
//! In: the address of a connection and, where a trusted proxy stands there, the header in which it names its own client. Out: shares of a
//! limit, counted by client. No client is ever shown: not in a log, not in a metric, not in a message.
//!
//! Connections from this machine and from private networks are not counted unless the operator wants it: behind such an address stands a
//! proxy or the operator, and a limit for one client would be a limit for all.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, HeaderName};

/// Of a header that proxies append to, this many entries are looked at.
const MAX_HOPS: usize = 16;
/// An IPv4 address is the end of an IPv6 one (RFC 4291 §2.5.5.2), so its prefix is this much longer.
const IPV4_BITS_BEFORE: u8 = 96;

/// How clients are told apart, and what each may have.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Long answers at once for one client.
    pub streams: usize,
    /// Connections at once from one client.
    pub connections: usize,
    /// IPv4 addresses that agree in this many bits are one client.
    pub ipv4_prefix: u8,
    /// The same for IPv6: what one household or one rented machine gets.
    pub ipv6_prefix: u8,
    /// Whether connections from this machine and from private networks are counted like any other.
    pub private: bool,
    /// Proxies that are believed when they name their client.
    pub proxies: Vec<AddressBlock>,
    /// Where they name it: `x-forwarded-for`, `forwarded` (RFC 7239), or a header that holds one address.
    pub header: HeaderName,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients {
            streams: 1_024,
            connections: 1_024,
            ipv4_prefix: 24,
            ipv6_prefix: 56,
            private: false,
            proxies: Vec::new(),
            header: HeaderName::from_static("x-forwarded-for"),
        }
    }
}

/// Addresses that agree in their first bits, such as `10.0.0.0/8`, `2001:db8::/32`, or a single one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: u128,
    /// Counted in an IPv6 address.
    prefix: u8,
}

/// What is no block of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address or a block such as 10.0.0.0/8 or 2001:db8::/32, found {found:?}")]
pub struct NoAddressBlock {
    /// What was given.
    pub found: String,
}

/// One address; IPv4 as the end of an IPv6 one.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX
        .checked_shl(128 - u32::from(prefix.min(128)))
        .unwrap_or(0)
}

impl FromStr for AddressBlock {
    type Err = NoAddressBlock;

    fn from_str(text: &str) -> Result<AddressBlock, NoAddressBlock> {
        let wrong = || NoAddressBlock {
            found: text.to_owned(),
        };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (before, most) = match address {
            IpAddr::V4(_) => (IPV4_BITS_BEFORE, 32),
            IpAddr::V6(_) => (0, 128),
        };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| wrong())?,
            None => most,
        };
        if prefix > most {
            return Err(wrong());
        }
        Ok(AddressBlock::new(bits(address), before + prefix))
    }
}

impl AddressBlock {
    fn new(address: u128, prefix: u8) -> AddressBlock {
        AddressBlock {
            first: address & mask(prefix),
            prefix,
        }
    }

    fn contains(&self, address: u128) -> bool {
        address & mask(self.prefix) == self.first
    }
}

/// One client; says nothing of itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    first: u128,
}

/// What a connection comes from.
#[derive(Clone, Copy)]
pub(crate) enum Peer {
    /// A client, or somebody who is not counted.
    Client(Option<Client>),
    /// A proxy that is believed: each call says whose it is.
    Proxy,
}

impl Clients {
    /// What a connection from `address` comes from.
    pub(crate) fn peer(&self, address: IpAddr) -> Peer {
        let address = bits(address);
        if self.is_proxy(address) {
            return Peer::Proxy;
        }
        Peer::Client((self.private || is_public(address)).then(|| self.client(address)))
    }

    /// Whom a call on a connection from `peer` comes from; `None` if it is not counted.
    pub(crate) fn caller(&self, peer: Peer, headers: &HeaderMap) -> Option<Client> {
        match peer {
            Peer::Client(client) => client,
            Peer::Proxy => self.named(headers).map(|address| self.client(address)),
        }
    }

    fn is_proxy(&self, address: u128) -> bool {
        self.proxies.iter().any(|proxy| proxy.contains(address))
    }

    fn client(&self, address: u128) -> Client {
        let ipv4 = AddressBlock::new(bits(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), IPV4_BITS_BEFORE);
        let prefix = if ipv4.contains(address) {
            IPV4_BITS_BEFORE.saturating_add(self.ipv4_prefix)
        } else {
            self.ipv6_prefix
        };
        Client {
            first: address & mask(prefix),
        }
    }

    /// The last address in the header that is no trusted proxy's own. What stands before it may be made up.
    fn named(&self, headers: &HeaderMap) -> Option<u128> {
        // A line that is no text is read all the same: the client wrote its first part, and would else be nobody.
        let lines: Vec<_> = headers
            .get_all(&self.header)
            .iter()
            .map(|line| String::from_utf8_lossy(line.as_bytes()))
            .collect();
        lines
            .iter()
            .rev()
            .flat_map(|line| line.rsplit(','))
            .take(MAX_HOPS)
            .map(|hop| address_of(hop).map(bits))
            .find(|address| address.is_none_or(|address| !self.is_proxy(address)))
            .flatten()
    }
}

/// The address in one entry: bare, with a port, or as RFC 7239 has it (`for="[2001:db8::1]:4711";proto=https`).
fn address_of(hop: &str) -> Option<IpAddr> {
    let node = hop
        .split(';')
        .map(str::trim)
        .find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.eq_ignore_ascii_case("for").then_some(value)
        })
        .unwrap_or(hop)
        .trim()
        .trim_matches('"');
    if let Some(rest) = node.strip_prefix('[') {
        return rest.split_once(']')?.0.parse().ok();
    }
    // Without brackets only an IPv4 address can have a port behind it.
    node.parse().ok().or_else(|| {
        let host: Ipv4Addr = node.rsplit_once(':')?.0.parse().ok()?;
        Some(IpAddr::V4(host))
    })
}

/// Whether an address is somebody's on the open network.
///
/// Spec: RFC 6890 and its registries: this host, private, shared, link-local, unique local.
fn is_public(address: u128) -> bool {
    const IPV4: u128 = 0xffff_0000_0000;
    const OTHERS: [(u128, u8); 10] = [
        (0, 127), // :: and ::1
        (IPV4, 96 + 8),
        (IPV4 | 0x7f00_0000, 96 + 8),
        (IPV4 | 0x0a00_0000, 96 + 8),
        (IPV4 | 0xac10_0000, 96 + 12),
        (IPV4 | 0xc0a8_0000, 96 + 16),
        (IPV4 | 0x6440_0000, 96 + 10),
        (IPV4 | 0xa9fe_0000, 96 + 16),
        (0xfc00 << 112, 7),
        (0xfe80 << 112, 10),
    ];
    !OTHERS
        .iter()
        .any(|(first, prefix)| AddressBlock::new(*first, *prefix).contains(address))
}

/// A limit that counts for each client by itself.
pub(crate) struct Shares {
    each: usize,
    /// Holds those who have something now, and nobody else.
    taken: Mutex<HashMap<Client, usize>>,
}

/// One client's share of a limit; given back when dropped.
pub(crate) struct Share {
    of: Option<(Arc<Shares>, Client)>,
}

impl Shares {
    /// `each` for every client.
    pub(crate) fn new(each: usize) -> Arc<Shares> {
        Arc::new(Shares {
            each,
            taken: Mutex::default(),
        })
    }

    /// A share, unless the client has all of its own. Who is not counted always gets one.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>) -> Option<Share> {
        let Some(client) = client else {
            return Some(Share { of: None });
        };
        let mut taken = self.lock();
        let count = taken.entry(client).or_default();
        if *count >= self.each {
            return None;
        }
        *count += 1;
        Some(Share {
            of: Some((Arc::clone(self), client)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Client, usize>> {
        // Counts are whole after any panic.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((shares, client)) = self.of.take() {
            let mut taken = shares.lock();
            if let Some(count) = taken.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(&client);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
