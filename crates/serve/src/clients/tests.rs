use http::HeaderValue;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn clients(proxies: &[&str], header: &'static str) -> Clients {
    Clients {
        proxies: proxies.iter().map(|proxy| proxy.parse().unwrap()).collect(),
        header: HeaderName::from_static(header),
        ..Clients::default()
    }
}

fn peer_client(clients: &Clients, address: &str) -> Option<Client> {
    match clients.peer(ip(address)) {
        Peer::Client(client) => client,
        Peer::Proxy => panic!("{address} is a proxy"),
    }
}

/// Equal clients, without showing them.
fn same(one: Option<Client>, other: Option<Client>) -> bool {
    one.is_some() && one == other
}

#[test]
fn neighbours_are_one_client() {
    let clients = Clients::default();
    let of = |address| peer_client(&clients, address);
    assert!(same(of("203.0.113.1"), of("203.0.113.254")));
    assert!(!same(of("203.0.113.1"), of("203.0.112.1")));
    assert!(same(of("203.0.113.1"), of("::ffff:203.0.113.9")));
    assert!(same(of("2001:db8:1:200::1"), of("2001:db8:1:2ff:1::")));
    assert!(!same(of("2001:db8:1:200::1"), of("2001:db8:1:300::1")));
}

#[test]
fn this_machine_and_private_networks_are_not_counted() {
    let clients = Clients::default();
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "::1",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.7.7",
        "100.64.0.1",
        "169.254.1.1",
        "fd00::1",
        "fe80::1",
        "::ffff:10.0.0.1",
        "0.0.0.0",
    ] {
        assert!(peer_client(&clients, address).is_none(), "{address}");
    }
    for address in [
        "172.32.0.1",
        "11.0.0.1",
        "100.128.0.1",
        "2001:db8::1",
        "::2",
    ] {
        assert!(peer_client(&clients, address).is_some(), "{address}");
    }
}

#[test]
fn only_a_trusted_proxy_is_believed() {
    let clients = clients(
        &["127.0.0.1", "10.0.0.0/8", "2001:db8:f::/48"],
        "x-forwarded-for",
    );
    let mut headers = HeaderMap::new();
    headers.append(
        "x-forwarded-for",
        "198.51.100.1, 203.0.113.7".parse().unwrap(),
    );
    headers.append(
        "x-forwarded-for",
        "10.9.9.9,[2001:db8:f::2]:443".parse().unwrap(),
    );
    let named = |peer| clients.caller(clients.peer(ip(peer)), &headers);
    let direct = peer_client(&clients, "203.0.113.200");
    for proxy in ["127.0.0.1", "10.1.1.1", "2001:db8:f::1"] {
        assert!(same(named(proxy), direct), "{proxy}");
    }
    // Others cannot speak for anyone but themselves.
    let stranger = peer_client(&clients, "198.51.100.9");
    assert!(same(named("198.51.100.9"), stranger));
    assert!(named("127.0.0.2").is_none());
    // What a client sends ahead of the proxy's word does not hide it, text or not.
    let mut bytes = HeaderMap::new();
    let line = HeaderValue::from_bytes(b"\xff\xfe, 203.0.113.7").unwrap();
    bytes.insert("x-forwarded-for", line);
    let proxy = clients.peer(ip("127.0.0.1"));
    assert!(same(clients.caller(proxy, &bytes), direct));
    // A proxy that names nobody, or nonsense, has no client.
    let empty = HeaderMap::new();
    assert!(clients.caller(Peer::Proxy, &empty).is_none());
    let mut nonsense = HeaderMap::new();
    nonsense.insert("x-forwarded-for", "203.0.113.7, unknown".parse().unwrap());
    assert!(clients.caller(Peer::Proxy, &nonsense).is_none());
}

#[test]
fn proxies_name_their_client_in_many_ways() {
    for (text, expected) in [
        ("203.0.113.7", "203.0.113.7"),
        (" 203.0.113.7:1234 ", "203.0.113.7"),
        ("2001:db8::7", "2001:db8::7"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("[2001:db8::7]:1234", "2001:db8::7"),
        ("for=203.0.113.7;proto=https", "203.0.113.7"),
        ("proto=https; For=\"[2001:db8::7]:4711\"", "2001:db8::7"),
        ("for=\"203.0.113.7:80\"", "203.0.113.7"),
    ] {
        assert_eq!(address_of(text), Some(ip(expected)), "{text}");
    }
    for text in [
        "",
        "unknown",
        "for=_hidden",
        "[",
        "[::1",
        "1.2.3",
        ":::",
        "for=",
    ] {
        assert_eq!(address_of(text), None, "{text}");
    }
}

#[test]
fn a_block_is_an_address_and_a_length() {
    let block = |text: &str| text.parse::<AddressBlock>();
    assert_eq!(block("10.1.2.3/8"), block("10.0.0.0/8"));
    assert!(
        block("0.0.0.0/0")
            .unwrap()
            .contains(bits(ip("203.0.113.1")))
    );
    assert!(
        !block("0.0.0.0/0")
            .unwrap()
            .contains(bits(ip("2001:db8::1")))
    );
    assert!(block("::/0").unwrap().contains(bits(ip("203.0.113.1"))));
    for wrong in [
        "",
        "10.0.0.0/33",
        "::/129",
        "10.0.0/8",
        "10.0.0.0/",
        "a/8",
        "10.0.0.0/-1",
    ] {
        assert!(block(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_client_has_its_share_and_no_more_and_is_forgotten_with_it() {
    let clients = Clients::default();
    let (one, other) = (
        peer_client(&clients, "203.0.113.1"),
        peer_client(&clients, "198.51.100.1"),
    );
    let shares = Shares::new(2);
    let held: Vec<_> = (0..2).map(|_| shares.take(one).unwrap()).collect();
    assert!(shares.take(one).is_none());
    assert!(shares.take(other).is_some());
    let uncounted: Vec<_> = (0..9).map(|_| shares.take(None)).collect();
    assert!(uncounted.iter().all(Option::is_some));
    drop(held);
    assert!(shares.take(one).is_some());
    assert!(shares.lock().is_empty(), "nobody has anything now");
}
