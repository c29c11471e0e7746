//! A case: what is asked, what must come back, and the rule that says so.

use std::fmt::Debug;

use prost::Message;
use sha2::{Digest, Sha256};
use tonic::Code;

use super::wire::{Call, Outcome};

/// Requests are shown up to here.
const MAX_TEXT_BYTES: usize = 400;
/// Expected messages of more bytes together are kept as digests: the cases of a group are all made before the first is asked.
const KEPT_BYTES: usize = 512 << 10;

/// One case.
pub struct Case {
    /// The method that is judged.
    pub method: &'static str,
    /// Unique within the method; the same for the same seed and chain.
    pub name: String,
    /// The rule's name in `docs/conformance.md`.
    pub rule: &'static str,
    /// What is asked, one after the other on one connection.
    pub calls: Vec<Call>,
    /// What must come back.
    pub expectation: Expectation,
}

/// Judges the outcomes of a case's calls; says what is wrong.
type Check = Box<dyn Fn(&[Outcome]) -> Result<(), String> + Send + Sync>;

/// What must come back.
pub struct Expectation {
    /// For people.
    pub text: String,
    /// For the judge.
    pub check: Check,
}

/// A call with one message.
pub fn call<M: Message + Debug>(method: &str, message: &M) -> Call {
    call_stream(method, std::slice::from_ref(message))
}

/// A call with a stream of messages.
pub fn call_stream<M: Message + Debug>(method: &str, messages: &[M]) -> Call {
    let bytes: usize = messages.iter().map(Message::encoded_len).sum();
    let mut text = if bytes > 4_000 {
        format!("{} messages of {bytes} bytes", messages.len())
    } else {
        let texts: Vec<String> = messages
            .iter()
            .map(|message| format!("{message:?}"))
            .collect();
        texts.join(", ")
    };
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    Call {
        method: method.to_owned(),
        messages: messages.iter().map(Message::encode_to_vec).collect(),
        text,
        patience: None,
    }
}

/// A call whose message is these bytes.
pub fn call_bytes(method: &str, bytes: Vec<u8>) -> Call {
    Call {
        method: method.to_owned(),
        text: format!("bytes {}", short_hex(&bytes)),
        messages: vec![bytes],
        patience: None,
    }
}

impl Expectation {
    /// `check` on the first call's outcome.
    pub fn that(
        text: impl Into<String>,
        check: impl Fn(&Outcome) -> Result<(), String> + Send + Sync + 'static,
    ) -> Expectation {
        Expectation::that_all(text, move |outcomes| match outcomes {
            [outcome, ..] => check(outcome),
            [] => Err("nothing was asked".into()),
        })
    }

    /// `check` on all outcomes.
    pub fn that_all(
        text: impl Into<String>,
        check: impl Fn(&[Outcome]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Expectation {
        Expectation {
            text: text.into(),
            check: Box::new(check),
        }
    }

    /// This message and OK.
    pub fn message<M: Message + Default + Debug>(expected: &M) -> Expectation {
        Expectation::messages(std::slice::from_ref(expected))
    }

    /// These messages and OK.
    pub fn messages<M: Message + Default + Debug>(expected: &[M]) -> Expectation {
        Expectation::messages_then(expected, Code::Ok)
    }

    /// These messages, byte for byte, and then this end.
    pub fn messages_then<M: Message + Default + Debug>(expected: &[M], code: Code) -> Expectation {
        let expected: Vec<Vec<u8>> = expected.iter().map(Message::encode_to_vec).collect();
        let text = match &expected[..] {
            [one] => format!("{code:?}: {}", short_hex(one)),
            many => format!("{} messages, then {code:?}", many.len()),
        };
        let expected = Expected::of(expected);
        Expectation::that(text, move |outcome| {
            let end = ended(outcome, &[code]);
            match (expected.same::<M>(&outcome.messages), end) {
                (Err(problem), Err(end)) => Err(format!("{problem}, then {end}")),
                (problem, end) => problem.and(end),
            }
        })
    }

    /// No message, and one of these codes.
    pub fn refused(codes: &'static [Code]) -> Expectation {
        let names: Vec<String> = codes.iter().map(|code| format!("{code:?}")).collect();
        Expectation::that(names.join(" or "), move |outcome| {
            if !outcome.messages.is_empty() {
                return Err(format!(
                    "{} messages came, the first: {}",
                    outcome.messages.len(),
                    short_hex(&outcome.messages[0])
                ));
            }
            ended(outcome, codes)
        })
    }
}

/// The outcome's end is one of `codes`.
pub fn ended(outcome: &Outcome, codes: &[Code]) -> Result<(), String> {
    match &outcome.end {
        None => Err(format!(
            "no end in time, after {} messages",
            outcome.messages.len()
        )),
        Some((code, _)) if codes.contains(code) => Ok(()),
        Some((code, message)) => Err(format!("{code:?} ({message})")),
    }
}

/// The outcome's only message, decoded, and OK.
pub fn only<M: Message + Default>(outcome: &Outcome) -> Result<M, String> {
    ended(outcome, &[Code::Ok])?;
    match &outcome.messages[..] {
        [one] => M::decode(&one[..]).map_err(|error| error.to_string()),
        other => Err(format!("{} messages", other.len())),
    }
}

/// All messages, decoded, and OK.
pub fn all<M: Message + Default>(outcome: &Outcome) -> Result<Vec<M>, String> {
    ended(outcome, &[Code::Ok])?;
    outcome
        .messages
        .iter()
        .map(|message| M::decode(&message[..]).map_err(|error| error.to_string()))
        .collect()
}

/// Messages to come, or what is left of them.
enum Expected {
    Whole(Vec<Vec<u8>>),
    Digests(Vec<[u8; 32]>),
}

impl Expected {
    fn of(messages: Vec<Vec<u8>>) -> Expected {
        if messages.iter().map(Vec::len).sum::<usize>() <= KEPT_BYTES {
            Expected::Whole(messages)
        } else {
            Expected::Digests(messages.iter().map(|message| digest(message)).collect())
        }
    }

    fn len(&self) -> usize {
        match self {
            Expected::Whole(messages) => messages.len(),
            Expected::Digests(digests) => digests.len(),
        }
    }

    /// The same messages, byte for byte; else where they differ.
    fn same<M: Message + Default + Debug>(&self, found: &[Vec<u8>]) -> Result<(), String> {
        let differing = match self {
            Expected::Whole(messages) => found
                .iter()
                .zip(messages)
                .position(|(found, expected)| found != expected)
                .map(|nth| (nth, difference::<M>(&found[nth], &messages[nth]))),
            Expected::Digests(digests) => found
                .iter()
                .zip(digests)
                .position(|(found, expected)| digest(found) != *expected)
                .map(|nth| (nth, format!("other bytes: {}", short_hex(&found[nth])))),
        };
        match differing {
            Some((nth, problem)) => Err(format!("message {nth}: {problem}")),
            None if found.len() != self.len() => {
                Err(format!("{} messages, not {}", found.len(), self.len()))
            }
            None => Ok(()),
        }
    }
}

fn digest(message: &[u8]) -> [u8; 32] {
    Sha256::digest(message).into()
}

fn difference<M: Message + Default + Debug>(found: &[u8], expected: &[u8]) -> String {
    let expected = M::decode(expected).expect("the model's message decodes");
    let Ok(found) = M::decode(found) else {
        return format!("it does not decode: {}", short_hex(found));
    };
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    if found == expected {
        return "it decodes to the same, but its bytes differ: unknown fields, or another order"
            .into();
    }
    let pairs = found.lines().zip(expected.lines()).enumerate();
    let Some((at, (left, right))) = pairs.into_iter().find(|(_, (left, right))| left != right)
    else {
        return "one is the beginning of the other".into();
    };
    let mut path = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut depth = indent(right);
    for line in expected
        .lines()
        .take(at)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        if indent(line) < depth {
            depth = indent(line);
            path.push(line.trim().trim_end_matches([' ', '{', '[', '(']));
        }
    }
    path.reverse();
    format!(
        "at {}: {} instead of {}",
        path.join(" > "),
        left.trim(),
        right.trim()
    )
}

/// The beginning of some bytes.
fn short_hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(60)];
    let more = if shown.len() < bytes.len() { "..." } else { "" };
    format!("{}{more} ({} bytes)", const_hex::encode(shown), bytes.len())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::proto::RawTransaction;

    #[test]
    fn large_answers_are_held_to_every_byte_too() {
        let large = |byte: u8| RawTransaction {
            data: vec![byte; KEPT_BYTES / 2],
            height: 1,
        };
        let expected = [large(1), large(2), large(3)];
        let check = Expectation::messages(&expected).check;
        let outcome = |messages: &[RawTransaction]| {
            [Outcome {
                messages: messages.iter().map(Message::encode_to_vec).collect(),
                end: Some((Code::Ok, String::new())),
                headers_after: Duration::ZERO,
            }]
        };
        assert_eq!(check(&outcome(&expected)), Ok(()));
        let short = check(&outcome(&expected[..2])).unwrap_err();
        assert!(short.contains("2 messages, not 3"), "{short}");
        let mut other = expected.clone();
        other[1].data[KEPT_BYTES / 4] ^= 1;
        let wrong = check(&outcome(&other)).unwrap_err();
        assert!(wrong.contains("message 1"), "{wrong}");
    }
}
