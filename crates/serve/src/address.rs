//! Transparent addresses: which strings the node is asked about.
//!
//! In: text from a wallet. Out: the proof that it is a P2PKH or P2SH address of this network, or what is wrong with it. What
//! money lies there is the node's to say.
//!
//! Spec: protocol §5.6.1 "Transparent Encodings" (Base58Check over 2 bytes of prefix and 20 of hash).

use lightship_chain::Network;

use crate::status::Refusal;

/// Prefix `[2]` and hash `[20]`.
const PAYLOAD_BYTES: usize = 22;
/// Longer text is not even decoded: Base58 costs the square of its length.
const MAX_TEXT_BYTES: usize = 64;

/// P2PKH and P2SH. Regtest uses the test network's.
const fn prefixes(network: Network) -> [[u8; 2]; 2] {
    match network {
        Network::Main => [[0x1c, 0xb8], [0x1c, 0xbd]],
        Network::Test | Network::Regtest => [[0x1d, 0x25], [0x1c, 0xba]],
    }
}

/// Whether `text` is a transparent address of `network`.
///
/// # Errors
///
/// [`Refusal::Address`], which says what is wrong and never repeats the text.
pub(crate) fn check(network: Network, text: &str) -> Result<(), Refusal> {
    let refuse = |problem| Err(Refusal::Address { problem });
    if text.is_empty() {
        return refuse("it is empty");
    }
    if text.starts_with("tex") {
        return refuse("TEX addresses have no history of their own");
    }
    if text.len() > MAX_TEXT_BYTES {
        return refuse("it is too long for one");
    }
    let mut payload = [0; PAYLOAD_BYTES + 4];
    match bs58::decode(text).with_check(None).onto(&mut payload[..]) {
        Ok(PAYLOAD_BYTES) => {}
        Ok(_) => return refuse("it is not 22 bytes long"),
        Err(bs58::decode::Error::InvalidChecksum { .. }) => {
            return refuse("its checksum does not hold");
        }
        Err(_) => return refuse("it is not Base58Check"),
    }
    if prefixes(network).contains(&[payload[0], payload[1]]) {
        Ok(())
    } else {
        refuse("its prefix is another network's or another kind's")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(prefix: [u8; 2], hash: &[u8]) -> String {
        let mut payload = prefix.to_vec();
        payload.extend_from_slice(hash);
        bs58::encode(payload).with_check().into_string()
    }

    #[test]
    fn an_address_belongs_to_its_network() {
        for (prefix, first, networks) in [
            ([0x1c, 0xb8], "t1", &[Network::Main][..]),
            ([0x1c, 0xbd], "t3", &[Network::Main]),
            ([0x1d, 0x25], "tm", &[Network::Test, Network::Regtest]),
            ([0x1c, 0xba], "t2", &[Network::Test, Network::Regtest]),
        ] {
            let text = encode(prefix, &[7; 20]);
            assert!(text.starts_with(first) && text.len() == 35);
            for network in Network::ALL {
                assert_eq!(check(network, &text).is_ok(), networks.contains(&network));
            }
        }
    }

    #[test]
    fn what_is_no_transparent_address_is_refused() {
        let good = encode([0x1c, 0xb8], &[7; 20]);
        let mut typo = good.clone();
        typo.replace_range(10..11, if &good[10..11] == "a" { "b" } else { "a" });
        for text in [
            "",
            "t1",
            &typo,
            &good[1..],
            &format!("{good}1"),
            &format!(" {good}"),
            &encode([0x1c, 0xb8], &[7; 19]),
            &encode([0x1c, 0xb8], &[7; 21]),
            "tex1s2rt77ggv6q989lr49rkgzmh5slsksa9khdgte",
            "zs1z7rejlpsa98s2rrrfkwmaxu53e4ue0ulcrw0h4x5g8jl04tak0d3mm47vdtahatqrlkngh9sly",
            "tümlaut",
            &"1".repeat(1_000_000),
        ] {
            assert!(matches!(
                check(Network::Main, text),
                Err(Refusal::Address { .. })
            ));
        }
    }
}
