//! Where two answers differ, by field.
//!
//! In: the encoded messages of two answers of one method. Out: a path for each place that differs (`[3].vtx[0].outputs[1].cmu`: fourth message,
//! and so on), with both values. The messages' own descriptors name the fields, so every method is served alike. Untrusted on both sides: what
//! does not decode is a difference, and so are fields that the protocol does not know and bytes in another order.

use std::sync::LazyLock;

use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage, UnknownField, Value,
};

use crate::proto::{DESCRIPTORS, SERVICE};

/// Differences of one answer that are listed; a longer list helps nobody.
const MOST_LISTED: usize = 40;
/// Values are shown up to here.
const MAX_VALUE_BYTES: usize = 120;

static PROTOCOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(DESCRIPTORS).expect("the build script has compiled the protocol")
});

/// A place where two answers differ.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Where: a path of fields, or what is no field in brackets, such as `(code)`.
    pub field: String,
    /// What the first server said.
    pub a: String,
    /// What the second one said.
    pub b: String,
}

impl Difference {
    pub(super) fn new(
        field: impl Into<String>,
        a: impl Into<String>,
        b: impl Into<String>,
    ) -> Difference {
        Difference {
            field: field.into(),
            a: shortened(a.into()),
            b: shortened(b.into()),
        }
    }

    /// The field without the positions, so that the same one can be counted over many answers.
    pub fn kind(&self) -> String {
        let mut kind = String::new();
        let mut inside = false;
        for letter in self.field.chars() {
            match letter {
                '[' => {
                    inside = true;
                    kind.push_str("[]");
                }
                ']' => inside = false,
                _ if inside => {}
                other => kind.push(other),
            }
        }
        kind.trim_start_matches("[].").to_owned()
    }
}

/// The methods of the protocol, as it lists them.
pub(super) fn methods() -> Vec<String> {
    let service = PROTOCOL.get_service_by_name(SERVICE);
    let service = service.expect("the protocol holds its service");
    service
        .methods()
        .map(|method| method.name().to_owned())
        .collect()
}

/// What a method answers with.
fn answer_of(method: &str) -> Option<MessageDescriptor> {
    let service = PROTOCOL.get_service_by_name(SERVICE)?;
    service
        .methods()
        .find(|each| each.name() == method)
        .map(|method| method.output())
}

/// Sets a field of an encoded message to its default; gives the message back as it was if that cannot be done.
pub(super) fn without(method: &str, message: &[u8], fields: &[&str]) -> Vec<u8> {
    use prost::Message;
    let decoded = answer_of(method).map(|kind| DynamicMessage::decode(kind, message));
    let Some(Ok(mut decoded)) = decoded else {
        return message.to_vec();
    };
    for field in fields {
        decoded.clear_field_by_name(field);
    }
    decoded.encode_to_vec()
}

/// Where two lists of messages differ.
pub(super) fn differences(method: &str, a: &[Vec<u8>], b: &[Vec<u8>]) -> Vec<Difference> {
    let mut found = Vec::new();
    if a.len() != b.len() {
        found.push(Difference::new(
            "(messages)",
            a.len().to_string(),
            b.len().to_string(),
        ));
    }
    let kind = answer_of(method);
    let mut more = 0;
    for (nth, (a, b)) in a.iter().zip(b).enumerate() {
        if a == b {
            continue;
        }
        let before = found.len();
        message(kind.as_ref(), &format!("[{nth}]"), a, b, &mut found);
        if found.len() > MOST_LISTED {
            more += found.len() - MOST_LISTED.max(before);
            found.truncate(MOST_LISTED.max(before));
        }
    }
    if more > 0 {
        found.push(Difference::new(
            "(more)",
            format!("{more} more places"),
            format!("{more} more places"),
        ));
    }
    found
}

fn message(
    kind: Option<&MessageDescriptor>,
    path: &str,
    a: &[u8],
    b: &[u8],
    found: &mut Vec<Difference>,
) {
    let decode = |bytes: &[u8]| {
        let kind = kind?.clone();
        DynamicMessage::decode(kind, bytes).ok()
    };
    match (decode(a), decode(b)) {
        (Some(left), Some(right)) => {
            let before = found.len();
            fields(path, &left, &right, found);
            if found.len() == before {
                found.push(Difference::new(
                    format!("{path}.(encoding)"),
                    const_hex::encode(a),
                    const_hex::encode(b),
                ));
            }
        }
        (left, right) => {
            let say = |decoded: Option<DynamicMessage>, bytes: &[u8]| match decoded {
                Some(_) => "decodes".to_owned(),
                None => format!("does not decode: {}", const_hex::encode(bytes)),
            };
            found.push(Difference::new(
                format!("{path}.(message)"),
                say(left, a),
                say(right, b),
            ));
        }
    }
}

fn fields(path: &str, a: &DynamicMessage, b: &DynamicMessage, found: &mut Vec<Difference>) {
    for field in a.descriptor().fields() {
        let path = format!("{path}.{}", field.name());
        match (a.has_field(&field), b.has_field(&field)) {
            (false, false) => {}
            (has_a, has_b) if has_a != has_b && field.supports_presence() => {
                let say = |has: bool, message: &DynamicMessage| match has {
                    true => shown(&message.get_field(&field)),
                    false => "(unset)".to_owned(),
                };
                found.push(Difference::new(path, say(has_a, a), say(has_b, b)));
            }
            _ => value(&path, &a.get_field(&field), &b.get_field(&field), found),
        }
    }
    let unknown = |message: &DynamicMessage| {
        let fields: Vec<String> = message
            .unknown_fields()
            .map(|field: &UnknownField| field.number().to_string())
            .collect();
        fields.join(", ")
    };
    let (left, right) = (unknown(a), unknown(b));
    if left != right {
        found.push(Difference::new(
            format!("{path}.(unknown fields)"),
            left,
            right,
        ));
    }
}

fn value(path: &str, a: &Value, b: &Value, found: &mut Vec<Difference>) {
    match (a, b) {
        (Value::Message(a), Value::Message(b)) => fields(path, a, b, found),
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                let count = |list: &[Value]| format!("{} of them", list.len());
                found.push(Difference::new(path, count(a), count(b)));
            }
            for (nth, (a, b)) in a.iter().zip(b).enumerate() {
                value(&format!("{path}[{nth}]"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(Difference::new(path, shown(a), shown(b))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => const_hex::encode(bytes),
        Value::String(text) => format!("{text:?}"),
        Value::Message(_) => "a message".to_owned(),
        other => other.to_string(),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_VALUE_BYTES {
        let bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_VALUE_BYTES));
        text.push_str(&format!("... ({bytes} characters)"));
    }
    text
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::proto::{CompactBlock, CompactTx, TxOut};

    fn block(change: impl Fn(&mut CompactBlock)) -> Vec<Vec<u8>> {
        let tx = CompactTx {
            vout: vec![TxOut::default(), TxOut::default()],
            ..CompactTx::default()
        };
        let mut block = CompactBlock {
            height: 7,
            vtx: vec![tx.clone(), tx],
            ..CompactBlock::default()
        };
        change(&mut block);
        vec![block.encode_to_vec()]
    }

    #[test]
    fn a_difference_is_named_by_the_path_to_its_field() {
        let a = block(|_| ());
        let b = block(|block| block.vtx[1].vout[0].script_pub_key = vec![1, 2]);
        let found = differences("GetBlock", &a, &b);
        assert_eq!(
            found,
            [Difference::new(
                "[0].vtx[1].vout[0].scriptPubKey",
                "",
                "0102"
            )]
        );
        assert_eq!(found[0].kind(), "vtx[].vout[].scriptPubKey");
    }

    #[test]
    fn what_is_missing_or_does_not_decode_differs() {
        let a = block(|_| ());
        let none = differences("GetBlock", &a, &[]);
        assert_eq!(none, [Difference::new("(messages)", "1", "0")]);
        let nonsense = differences("GetBlock", &a, &[vec![0xff]]);
        assert_eq!(nonsense[0].field, "[0].(message)");
        let fewer = differences("GetBlock", &a, &block(|block| drop(block.vtx.pop())));
        assert_eq!(
            fewer,
            [Difference::new("[0].vtx", "2 of them", "1 of them")]
        );
    }

    #[test]
    fn other_bytes_for_the_same_fields_and_unknown_fields_differ() {
        // Height 7, and then once more.
        let twice = differences("GetLatestBlock", &[vec![8, 7]], &[vec![8, 7, 8, 7]]);
        assert_eq!(twice[0].field, "[0].(encoding)");
        let unknown = differences("GetLatestBlock", &[vec![8, 7]], &[vec![8, 7, 0xf8, 7, 1]]);
        assert_eq!(
            unknown,
            [Difference::new("[0].(unknown fields)", "", "127")]
        );
    }

    #[test]
    fn a_long_list_ends_with_how_much_is_left_out() {
        let blocks = |height: u64| -> Vec<Vec<u8>> {
            (0..100)
                .map(|nth| {
                    let block = CompactBlock {
                        height: height + nth,
                        ..CompactBlock::default()
                    };
                    block.encode_to_vec()
                })
                .collect()
        };
        let found = differences("GetBlockRange", &blocks(1), &blocks(1_000));
        assert_eq!(found.len(), MOST_LISTED + 1);
        assert_eq!(found[MOST_LISTED].a, "60 more places");
    }
}
