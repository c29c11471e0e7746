//! JSON-RPC 2.0 on the wire: questions out, answers in.
//!
//! Answers stay the text they are: a result is a slice of the body, so that a block's hex is decoded from where it was received.
//! Also reads the older dialect, in which `result` and `error` are always both there.

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

/// One question of a batch, or the only one.
#[derive(Serialize)]
struct Question<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

/// The node's refusal of one question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) message: String,
}

/// The answer to one question: the text of the result, or a refusal.
pub(super) type Outcome = Result<Bytes, Refusal>;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    #[serde(default)]
    message: Option<String>,
}

/// The body of one question.
pub(super) fn question(id: u64, method: &str, params: impl Serialize) -> Bytes {
    encode(&Question {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// The body of several questions of one method, numbered from `first_id` on.
pub(super) fn batch<P: Serialize>(
    first_id: u64,
    method: &str,
    params: impl Iterator<Item = P>,
) -> Bytes {
    let questions: Vec<_> = (first_id..)
        .zip(params)
        .map(|(id, params)| Question {
            jsonrpc: "2.0",
            id,
            method,
            params,
        })
        .collect();
    encode(&questions)
}

fn encode(questions: &impl Serialize) -> Bytes {
    serde_json::to_vec(questions)
        .expect("questions hold only strings, numbers and lists")
        .into()
}

/// The answer to the one question `id`. Errors say what was expected and what was found.
pub(super) fn answer(body: &Bytes, id: u64) -> Result<Outcome, String> {
    let answer: Answer<'_> = parse(body)?;
    let outcome = outcome(body, &answer)?;
    // A node that cannot read the question cannot name it.
    if outcome.is_ok() || answer.id.is_some() {
        check_id(&answer, id)?;
    }
    Ok(outcome)
}

/// The answers to `count` questions numbered from `first_id` on, in the order of the questions, or one refusal of them all.
pub(super) fn answers(
    body: &Bytes,
    first_id: u64,
    count: usize,
) -> Result<Result<Vec<Outcome>, Refusal>, String> {
    if body.trim_ascii_start().first() == Some(&b'{') {
        return match outcome(body, &parse(body)?)? {
            Err(refusal) => Ok(Err(refusal)),
            Ok(_) => Err("one answer to many questions".to_owned()),
        };
    }
    let answers: Vec<Answer<'_>> = parse(body)?;
    if answers.len() != count {
        return Err(format!("{} answers to {count} questions", answers.len()));
    }
    let mut ordered: Vec<Option<Outcome>> = vec![None; count];
    for (position, answer) in answers.iter().enumerate() {
        let wanted = first_id + position as u64;
        // In order almost always; a server may also answer in any other.
        let place = if check_id(answer, wanted).is_ok() {
            position
        } else {
            id_of(answer)
                .and_then(|id| usize::try_from(id.checked_sub(first_id)?).ok())
                .filter(|place| *place < count)
                .ok_or_else(|| format!("an answer with id {}", id_text(answer)))?
        };
        if ordered[place].replace(outcome(body, answer)?).is_some() {
            return Err(format!("two answers with id {}", id_text(answer)));
        }
    }
    // As many answers as questions, and no two to the same: each has one.
    let ordered: Option<Vec<Outcome>> = ordered.into_iter().collect();
    Ok(Ok(ordered.ok_or("a question without an answer")?))
}

/// The refusal in `body`, if it is one refusal or a list that holds one with this code.
pub(super) fn refusal_with_code(body: &[u8], code: i32) -> Option<String> {
    let answers: Vec<Answer<'_>> = match body.trim_ascii_start().first()? {
        b'[' => serde_json::from_slice(body).ok()?,
        _ => vec![serde_json::from_slice(body).ok()?],
    };
    answers
        .into_iter()
        .filter_map(|answer| answer.error)
        .find(|error| error.code == i64::from(code))
        .map(|error| error.message.unwrap_or_default())
}

/// Whether `body` is JSON-RPC: one answer or a list of them.
pub(super) fn is_answer(body: &[u8]) -> bool {
    match body.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice::<Vec<Answer<'_>>>(body).is_ok(),
        _ => serde_json::from_slice::<Answer<'_>>(body)
            .is_ok_and(|answer| answer.result.is_some() || answer.error.is_some()),
    }
}

/// A result's text as a value.
pub(super) fn value<T: DeserializeOwned>(result: &[u8]) -> Result<T, String> {
    serde_json::from_slice(result).map_err(|error| error.to_string())
}

/// The inside of a result that is a string of plain characters, as hexadecimal text is.
pub(super) fn plain_text(result: &[u8]) -> Result<&[u8], String> {
    result
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
        .ok_or_else(|| "expected a string".to_owned())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn outcome(body: &Bytes, answer: &Answer<'_>) -> Result<Outcome, String> {
    match (&answer.result, &answer.error) {
        (_, Some(error)) => Ok(Err(Refusal {
            code: i32::try_from(error.code).map_err(|_| format!("error code {}", error.code))?,
            message: error.message.clone().unwrap_or_default(),
        })),
        (Some(result), None) => Ok(Ok(body.slice_ref(result.get().as_bytes()))),
        (None, None) => Err("neither a result nor an error".to_owned()),
    }
}

fn check_id(answer: &Answer<'_>, id: u64) -> Result<(), String> {
    if id_of(answer) == Some(id) {
        return Ok(());
    }
    Err(format!("an answer with id {}", id_text(answer)))
}

fn id_of(answer: &Answer<'_>) -> Option<u64> {
    answer.id?.get().parse().ok()
}

fn id_text(answer: &Answer<'_>) -> String {
    let text = answer.id.map_or("null", RawValue::get);
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn questions_are_json_rpc_2() {
        assert_eq!(
            question(7, "getblock", ("5", 0)),
            r#"{"jsonrpc":"2.0","id":7,"method":"getblock","params":["5",0]}"#
        );
        assert_eq!(
            batch(3, "m", [[1], [2]].iter()),
            r#"[{"jsonrpc":"2.0","id":3,"method":"m","params":[1]},{"jsonrpc":"2.0","id":4,"method":"m","params":[2]}]"#
        );
    }

    #[test]
    fn both_dialects_are_read() {
        let new = body(r#"{"jsonrpc":"2.0","id":1,"result":"ab"}"#);
        let old = body(r#"{"result":"ab","error":null,"id":1}"#);
        assert_eq!(answer(&new, 1), Ok(Ok(body("\"ab\""))));
        assert_eq!(answer(&old, 1), Ok(Ok(body("\"ab\""))));
        let refused = Ok(Err(Refusal {
            code: -8,
            message: "no".to_owned(),
        }));
        let new = body(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-8,"message":"no"}}"#);
        let old = body(r#"{"result":null,"error":{"code":-8,"message":"no"},"id":1}"#);
        assert_eq!(answer(&new, 1), refused);
        assert_eq!(answer(&old, 1), refused);
    }

    #[test]
    fn an_answer_to_another_question_is_no_answer() {
        assert!(answer(&body(r#"{"id":2,"result":"ab"}"#), 1).is_err());
        assert!(answer(&body(r#"{"id":null,"result":"ab"}"#), 1).is_err());
        assert!(answer(&body(r#"{"id":"1","result":"ab"}"#), 1).is_err());
        assert!(answer(&body(r#"{"result":"ab"}"#), 1).is_err());
        assert!(answer(&body(r#"{"id":1}"#), 1).is_err());
        assert!(answer(&body(r#"{"id":1,"result":null}"#), 1).is_err());
        assert!(answer(&body(r#"{"id":1,"result":"ab""#), 1).is_err());
        assert!(answer(&body("<html>"), 1).is_err());
        assert!(answer(&body(""), 1).is_err());
    }

    #[test]
    fn a_batch_is_put_in_order() {
        let text = r#"[{"id":6,"result":"b"},{"id":5,"result":"a"},{"id":7,"error":{"code":-8}}]"#;
        let answers = answers(&body(text), 5, 3).unwrap().unwrap();
        assert_eq!(answers[0], Ok(body("\"a\"")));
        assert_eq!(answers[1], Ok(body("\"b\"")));
        assert!(answers[2].is_err());
    }

    #[test]
    fn a_batch_that_is_not_one_answer_each_is_refused() {
        for text in [
            r#"[{"id":5,"result":"a"}]"#,
            r#"[{"id":5,"result":"a"},{"id":5,"result":"b"}]"#,
            r#"[{"id":5,"result":"a"},{"id":7,"result":"b"}]"#,
            r#"[{"id":5,"result":"a"},{"id":4,"result":"b"}]"#,
            r#"[{"id":5,"result":"a"},{"id":null,"result":"b"}]"#,
            r#"[{"id":5,"result":"a"},{"id":18446744073709551615,"result":"b"}]"#,
            r#"{"id":5,"result":"a"}"#,
        ] {
            assert!(answers(&body(text), 5, 2).is_err(), "{text}");
        }
        let whole = r#"{"id":null,"error":{"code":-32011,"message":"too large"}}"#;
        assert!(answers(&body(whole), 5, 2).unwrap().is_err());
    }
}
