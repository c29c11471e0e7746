//! Faults in words, as the command line and the control port take them.

use std::{str::FromStr, time::Duration};

use lightship_source::simulated::{Fault, Rule};

/// A fault with the calls it befalls: `KIND[:KEY=VALUE,..]`.
///
/// | kind | what happens | keys of its own |
/// |---|---|---|
/// | `refuse` | the port is closed | |
/// | `hang` | no answer | |
/// | `slow` | a late answer | `ms` (1000) |
/// | `cut` | the connection breaks in the middle of the answer | |
/// | `status` | an HTTP status without JSON | `status` (500) |
/// | `html` | HTTP 200 with a page | |
/// | `truncated` | HTTP 200 with half of the JSON | |
/// | `warming` | error -28 | |
/// | `code` | a JSON-RPC error | `code` (-1), `message` |
/// | `wrong-shape` | a result of another type | |
/// | `wrong-answer` | a result that looks right and is not | |
///
/// Keys of all kinds: `method` (only calls of it), `after` (spare so many calls), `times` (only so many), `seconds` (only for so long).
#[derive(Clone, Debug)]
pub struct FaultWords(pub Rule);

impl FromStr for FaultWords {
    type Err = String;

    fn from_str(words: &str) -> Result<FaultWords, String> {
        let (kind, rest) = words.trim().split_once(':').unwrap_or((words.trim(), ""));
        let mut pairs = Vec::new();
        for pair in rest.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("'{pair}' is no KEY=VALUE"))?;
            pairs.push((key.trim(), value.trim()));
        }
        let mut take = |wanted: &str| {
            let at = pairs.iter().position(|(key, _)| *key == wanted)?;
            Some(pairs.remove(at).1)
        };
        let fault = match kind {
            "refuse" => Fault::Refuse,
            "hang" => Fault::Hang,
            "slow" => Fault::Slow(Duration::from_millis(number(take("ms"), 1000)?)),
            "cut" => Fault::Cut,
            "status" => Fault::Status(number(take("status"), 500)?),
            "html" => Fault::Html,
            "truncated" => Fault::Truncated,
            "warming" => Fault::Warming,
            "code" => Fault::Code {
                code: number(take("code"), -1)?,
                message: take("message").unwrap_or("as told").to_owned(),
            },
            "wrong-shape" => Fault::WrongShape,
            "wrong-answer" => Fault::WrongAnswer,
            other => return Err(format!("unknown fault '{other}'")),
        };
        let mut rule = Rule::new(fault);
        if let Some(method) = take("method") {
            rule = rule.of_method(method);
        }
        if let Some(calls) = take("after") {
            rule = rule.after(number(Some(calls), 0)?);
        }
        if let Some(calls) = take("times") {
            rule = rule.times(number(Some(calls), 0)?);
        }
        if let Some(seconds) = take("seconds") {
            rule = rule.lasting(Duration::from_secs(number(Some(seconds), 0)?));
        }
        match pairs.first() {
            None => Ok(FaultWords(rule)),
            Some((key, _)) => Err(format!("'{kind}' has no key '{key}'")),
        }
    }
}

fn number<T: FromStr>(text: Option<&str>, otherwise: T) -> Result<T, String> {
    match text {
        None => Ok(otherwise),
        Some(text) => text
            .parse()
            .map_err(|_| format!("'{text}' is not a fitting number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_be_said() {
        for words in [
            "refuse",
            "hang:seconds=3",
            "slow:ms=20,method=getblock",
            "cut:after=2,times=1",
            "status:status=429",
            "html",
            "truncated",
            "warming",
            "code:code=-8,message=no such block",
            "wrong-shape",
            "wrong-answer:method=z_gettreestate",
        ] {
            assert!(words.parse::<FaultWords>().is_ok(), "{words}");
        }
        for words in ["", "explode", "hang:ms=3", "slow:ms=soon", "cut:twice"] {
            assert!(words.parse::<FaultWords>().is_err(), "{words}");
        }
    }
}
