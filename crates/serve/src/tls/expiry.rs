//! When a certificate ends.
//!
//! In: one certificate, DER. Out: its `notAfter`. Only the way to that field is read; whether the rest is a certificate is for
//! those who verify it.
//!
//! Spec: RFC 5280 §4.1 (the fields), §4.1.2.5 (the two forms of time); X.690 §8.1.3 (lengths).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The moment after which `certificate` is not to be trusted; `None` if there is none to be found.
pub(super) fn not_after(certificate: &[u8]) -> Option<SystemTime> {
    let (to_be_signed, _) = element(element(certificate, SEQUENCE)?.0, SEQUENCE)?;
    // Version 1 has no version field.
    let rest = element(to_be_signed, VERSION).map_or(to_be_signed, |(_, rest)| rest);
    let (_serial, rest) = element(rest, INTEGER)?;
    let (_algorithm, rest) = element(rest, SEQUENCE)?;
    let (_issuer, rest) = element(rest, SEQUENCE)?;
    let (validity, _) = element(rest, SEQUENCE)?;
    let (_, rest) = time(validity)?;
    Some(time(rest)?.0)
}

/// The content of the element that `bytes` begins with, which must have this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // More than four bytes of length are no certificate, and no length (0x80) is not DER.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |length, digit| length << 8 | usize::from(*digit));
            (length, rest)
        }
        _ => return None,
    };
    (found == tag).then_some(())?;
    rest.split_at_checked(length)
}

fn time(bytes: &[u8]) -> Option<(SystemTime, &[u8])> {
    let (digits, rest, century) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text.strip_suffix(b"Z")?, rest, None),
        None => {
            let (text, rest) = element(bytes, GENERALIZED_TIME)?;
            let (century, digits) = text.strip_suffix(b"Z")?.split_at_checked(2)?;
            (digits, rest, Some(number(century)?))
        }
    };
    if digits.len() != 12 {
        return None;
    }
    let mut pairs = [0; 6];
    for (pair, digits) in pairs.iter_mut().zip(digits.chunks_exact(2)) {
        *pair = number(digits)?;
    }
    let [year, month, day, hour, minute, second] = pairs;
    // Two digits of a year mean 1950 to 2049.
    let year = year + 100 * century.unwrap_or(if year < 50 { 20 } else { 19 });
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400
        + i64::from(hour * 3_600 + minute * 60 + second);
    let moment = match u64::try_from(seconds) {
        Ok(after) => UNIX_EPOCH.checked_add(Duration::from_secs(after)),
        Err(_) => UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    Some((moment?, rest))
}

/// Two decimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u32::from(digit - b'0'))
    })
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days_since_epoch(year: u32, month: u32, day: u32) -> i64 {
    // Years are counted from March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 {
        (i64::from(year), i64::from(month) - 3)
    } else {
        (i64::from(year) - 1, i64::from(month) + 9)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days_before_month = (153 * month + 2) / 5;
    year * 365 + leap_days + days_before_month + i64::from(day) - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(days_since_epoch(1970, 1, 1), 0);
        assert_eq!(days_since_epoch(2000, 2, 29), 11_016);
        assert_eq!(days_since_epoch(2000, 3, 1), 11_017);
        assert_eq!(days_since_epoch(2100, 3, 1), 47_541);
        assert_eq!(days_since_epoch(1969, 12, 31), -1);
    }

    fn seconds(element: &[u8]) -> Option<u64> {
        let (moment, rest) = time(element)?;
        assert!(rest.is_empty());
        Some(moment.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn both_forms_of_time_are_read() {
        assert_eq!(seconds(b"\x17\x0d380119031407Z"), Some(2_147_483_647));
        assert_eq!(seconds(b"\x18\x0f20380119031408Z"), Some(2_147_483_648));
        for wrong in [
            &b"\x17\x0d380119031407+"[..],
            b"\x17\x0d381319031407Z",
            b"\x17\x0d38011903140xZ",
            b"\x17\x0b3801190314Z",
            b"\x18\x01Z",
            b"\x17\x84\xff\xff\xff\xffZ",
            b"\x17\x80",
            b"",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
    }
}
