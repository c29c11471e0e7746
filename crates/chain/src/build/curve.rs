//! Bytes that decode as points of the two curves, without arithmetic on either.
//!
//! Readers of whole transactions refuse a value commitment, a key or an ephemeral key that is no curve point. The tables hold, for
//! each curve, the first sixteen valid encodings among the digests `SHA-256("lightship pallas" || i)` and
//! `SHA-256("lightship jubjub" || i)`, `i` one byte counting from 0, with the two top bits cleared. The top bit chooses between a
//! point and its negative, so each entry gives two.
//!
//! Spec: protocol §5.4.9.3 "Jubjub", §5.4.9.6 "Pallas and Vesta".

use rand_core::Rng;

/// A curve whose points appear in transactions.
#[derive(Clone, Copy)]
pub(super) enum Curve {
    /// Sapling.
    Jubjub,
    /// Orchard and Ironwood.
    Pallas,
}

impl Curve {
    /// The encoding of some point, `[32]`. Neither the identity nor of small order.
    pub(super) fn point(self, rng: &mut impl Rng) -> [u8; 32] {
        let table = match self {
            Curve::Jubjub => &JUBJUB,
            Curve::Pallas => &PALLAS,
        };
        let random = rng.next_u32();
        let mut point = table[(random & 15) as usize];
        point[31] |= ((random >> 4 & 1) as u8) << 7;
        point
    }
}

/// A random number below 2^254, `[32]` little-endian: a canonical element of either curve's base field.
pub(super) fn field_element(rng: &mut impl Rng) -> [u8; 32] {
    let mut bytes = [0; 32];
    rng.fill_bytes(&mut bytes);
    bytes[31] &= 0x3f;
    bytes
}

/// Reads one row of the tables while compiling.
const fn hex_point(text: &[u8; 64]) -> [u8; 32] {
    const fn digit(byte: u8) -> u8 {
        match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => panic!("the tables hold lower-case hexadecimal digits"),
        }
    }
    let mut bytes = [0; 32];
    let mut at = 0;
    while at < 32 {
        bytes[at] = digit(text[2 * at]) << 4 | digit(text[2 * at + 1]);
        at += 1;
    }
    bytes
}

const PALLAS: [[u8; 32]; 16] = [
    hex_point(b"bdc190a7f36869cd83f8ddd536aa5d94a642edd860c3cca78dd03af0b6bc7416"),
    hex_point(b"1a572d5f656f19056fafa62dac5e910a1caff4d95131ca862c8c833f316b0e3c"),
    hex_point(b"21527a1dc2400fa8afc249ef8e2408ec319576d27342c5065f4e70f60c63ef31"),
    hex_point(b"af747bbedd5b3af59c4a7c199f62c3840c4bb6550f96cf345e06f8e77c930313"),
    hex_point(b"77e4f94f8b28baaf7325e0e405781bccc3fa27cea02d84a56634320a1c64f200"),
    hex_point(b"81ba495c089bdf3f2dd56ef89cfe89a909db4ae3548f77f48f137c2d0f8fab28"),
    hex_point(b"80b3cfd30435b49cf43b069a43fb7114e9e8e439e4198a7c3f0034250d46bc00"),
    hex_point(b"9d7b3cba5bd0270d4b213034a0c52ffff99e10a27e4ab0a96b48572f0e68971f"),
    hex_point(b"c1fb1578b308e7a70fce543d1c98ce170850020ea2732f6c08d8c25ac82ca53c"),
    hex_point(b"927136ef35d7800432669031fe831476db2e925495dbc303587ebeb7059d8a08"),
    hex_point(b"68ed0d5222ed4f91bbcc86ad4774e175ce80ec733f33a6905c28917ef142aa3b"),
    hex_point(b"134cad314e3e585c41640d5ebe2f3fef4642b80da12ae21044442213569d7e35"),
    hex_point(b"0eb4343a840aa1a8282907b0881767c7e135e8cf65c91ec6985966a99bdbc935"),
    hex_point(b"90176790004a012472ed6b044ee53c515930f7f93bafd4085c0620e1359f4503"),
    hex_point(b"81c274a5795528ef68ce4b82177e74298579968e36e036c325a66e4ed02fab3a"),
    hex_point(b"420e9d2e9dab8561c187203577fc3197eb19710c60bb77e37dca8c3849c8bf0a"),
];

const JUBJUB: [[u8; 32]; 16] = [
    hex_point(b"da3f3a995a599540e328dcd222fe3c6594264d1710cfb3bc7fb8b46454ed0f22"),
    hex_point(b"a3e22a7a21c1599ec13ad70b8af12eeef77b0a8c2d7189bcd5f4bd41cb55942d"),
    hex_point(b"5e1918c17ce226993bdcc80263c76fbd088e20eb95e87f832792c1a75097932d"),
    hex_point(b"354beaffc7891951a7ce45d3513a63d38cd725051c554fff33cd2f5fbe76b522"),
    hex_point(b"a2e60964efa1d75b4fcf0608b99fc4f04629d5cf16c5086b72b7fb1814f1bb0f"),
    hex_point(b"ed257d9158b755008a65bf0ab08eea262d79007de1d6f571b747ea65031dad05"),
    hex_point(b"a3e6dd88576d57d12f73358b922ff6d99b9167fc360946cc86ebfd7f6be8971a"),
    hex_point(b"88f4b9cf56d984744c095c8391e60d1189f569720181f01e7b5210455c431f31"),
    hex_point(b"74d6eded0dc0bb24f2d49e3362ed81e774fd62ed00799d7d975a088178b0c736"),
    hex_point(b"5c89a5b66b8345cb4d81429ea7c1822666f84cdb8818630b03e9dd065266bb24"),
    hex_point(b"3987719d7d9a2514bb4e8d4a3356382e6e43e4e5bb35ee51b4834d7b176ab511"),
    hex_point(b"2858e64c2bd8ab24bcc91ece5832d16f5577325b8830577fb816d267825af93a"),
    hex_point(b"8113f1d38d1659e610db39ab7d802913bb8ca64d2b650bf2e189ad3cc70a1413"),
    hex_point(b"11224532b46ba69d9056e57b46c813e1acd876fc6f324b2c77cef0d6bda9123f"),
    hex_point(b"98969ae0732f63fab1ae6a3fc5fd60fcdfb03d1ccfe00589b304f7ae59114a13"),
    hex_point(b"04754bebb7e5a109a3f8a18936fb0e877f2261987f34ae965a19697f71330e1d"),
];
