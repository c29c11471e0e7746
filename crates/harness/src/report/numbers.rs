//! Figures as people read them.

use crate::bench::figures::apart;

/// A figure with four significant digits or all digits before the point, thousands apart: `12,345`, `2.718`, `0.001235`.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "no number".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // 1 for 1 to 9.99, 0 for 0.1 to 0.99.
    let digits = value.abs().log10().floor() + 1.0;
    let decimals = (4.0 - digits).clamp(0.0, 9.0) as usize;
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    let sign = if value < 0.0 { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", apart(whole))
}

/// A count, thousands apart.
pub(super) fn count(value: u64) -> String {
    apart(&value.to_string())
}

/// A ratio: `0.42`, `17.3`, `1,204`.
pub(super) fn ratio(value: f64) -> String {
    match value {
        value if !value.is_finite() => "no number".to_owned(),
        value if value >= 100.0 => apart(&format!("{value:.0}")),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 || value == 0.0 => format!("{value:.2}"),
        value if value >= 0.01 => format!("{value:.3}"),
        value => format!("{value:.4}"),
    }
}

/// The number right before one of `words` in a case's name: 1000 of `1,000 blocks, 64 clients` and `blocks`.
pub(super) fn before(text: &str, words: &[&str]) -> Option<f64> {
    let parts: Vec<&str> = text.split([' ', '\u{a0}']).collect();
    parts.windows(2).find_map(|pair| {
        let word = pair[1].trim_matches(|letter: char| !letter.is_alphanumeric());
        let number = pair[0].trim_start_matches(|letter: char| !letter.is_ascii_digit());
        words
            .contains(&word)
            .then(|| number.replace([',', '_'], "").parse().ok())
            .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits_and_thousands_apart() {
        for (value, text) in [
            (0.0, "0"),
            (12_345.678, "12,346"),
            (999.96, "1,000"),
            (2.718_4, "2.718"),
            (0.001_234_56, "0.001235"),
            (-1_500.0, "-1,500"),
            (1e9, "1,000,000,000"),
            (2.5, "2.5"),
            (f64::NAN, "no number"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(ratio(0.954), "0.95");
        assert_eq!(ratio(1_234.5), "1,234");
        assert_eq!(count(1_000), "1,000");
    }

    #[test]
    fn the_number_before_a_word_is_found() {
        let case = "1,000 blocks, 64 clients";
        assert_eq!(before(case, &["block", "blocks"]), Some(1_000.0));
        assert_eq!(before(case, &["client", "clients"]), Some(64.0));
        assert_eq!(before(case, &["worker", "workers"]), None);
        assert_eq!(before("blocks", &["blocks"]), None);
    }
}
