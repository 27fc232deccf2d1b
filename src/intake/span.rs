//! Spans of time as people write them in a plan: `8`, `~2h`, `1-2 hours`, `30 min`, `1h 30m`, `half a day`.
//!
//! Answers with a number or `None`; what to say about a wrong one is the reader's business.

use super::value::{plain, without_remark};

const DAY_HOURS: f64 = 8.0;
const WEEK_HOURS: f64 = 5.0 * DAY_HOURS;

/// What may stand before a number without changing it.
const FILLERS: &[&str] = &[
    "~",
    "≈",
    "<",
    "≤",
    "±",
    "about ",
    "approximately ",
    "approx. ",
    "approx ",
    "around ",
    "roughly ",
    "circa ",
    "ca. ",
    "c. ",
    "up to ",
    "less than ",
    "under ",
    "at most ",
    "max. ",
    "max ",
    "est. ",
    "estimated ",
    "est: ",
];

/// Spans without a figure in them, in hours.
const WORDS: &[(&str, f64)] = &[
    ("half an hour", 0.5),
    ("an hour", 1.0),
    ("one hour", 1.0),
    ("half a day", DAY_HOURS / 2.0),
    ("a day", DAY_HOURS),
    ("one day", DAY_HOURS),
    ("a week", WEEK_HOURS),
    ("one week", WEEK_HOURS),
];

/// Hours of work. A range means its higher end, a day eight hours and a week five days.
pub(super) fn hours(text: &str) -> Option<f64> {
    let (number, unit, rest) = number_with_unit(text)?;
    let hours = match unit {
        "" if rest.is_empty() => number,
        "h" | "hr" | "hrs" | "hour" | "hours" | "std" => number + minutes_after(rest),
        "m" | "min" | "mins" | "minute" | "minutes" => number / 60.0,
        "d" | "day" | "days" => number * DAY_HOURS,
        "w" | "week" | "weeks" => number * WEEK_HOURS,
        _ => return None,
    };
    Some(hours)
}

/// Seconds on a clock: `3600`, `90s`, `30 minutes`, `2h`.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (number, unit, rest) = number_with_unit(text)?;
    if !rest.is_empty() && minutes_after(rest) == 0.0 {
        return None;
    }
    match unit {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => Some(number),
        "d" | "day" | "days" => Some(number * 86_400.0),
        "w" | "week" | "weeks" => Some(number * 7.0 * 86_400.0),
        _ => hours(text).map(|hours| hours * 3600.0),
    }
}

/// The number (of a range the higher one), its unit, and what follows.
fn number_with_unit(text: &str) -> Option<(f64, &str, &str)> {
    let text = bare(text);
    if let Some((_, hours)) = WORDS.iter().find(|(words, _)| text.eq_ignore_ascii_case(words)) {
        return Some((*hours, "h", ""));
    }
    let (first, rest) = number(text)?;
    // `2-3 hours`, and also `2h-3h` and `30 min to 1 hour`.
    if let Some((last, after)) = range_end(rest) {
        let (unit, after) = unit(after);
        return (last >= first).then_some((last, unit, after));
    }
    let (first_unit, after) = unit(rest);
    if let Some((last, after)) = range_end(after) {
        let (unit, after) = unit(after);
        return Some((last, unit, after));
    }
    Some((first, first_unit, after))
}

fn bare(text: &str) -> &str {
    let mut text = plain(without_remark(text));
    loop {
        let shorter = FILLERS.iter().find_map(|filler| {
            let head = text.get(..filler.len())?;
            head.eq_ignore_ascii_case(filler).then(|| text[filler.len()..].trim_start())
        });
        match shorter {
            Some(shorter) => text = shorter,
            None => return text,
        }
    }
}

fn range_end(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let after = ["-", "–", "—", "to ", "bis "].iter().find_map(|mark| text.strip_prefix(mark))?;
    number(bare(after))
}

/// A number without a sign: `8`, `1.5`, `2,5`, `1½`, `1e3`.
fn number(text: &str) -> Option<(f64, &str)> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (whole, rest) = text.split_at(digits);
    let exponent = rest.strip_prefix(['e', 'E']).map(|rest| {
        let sign = usize::from(rest.starts_with(['+', '-']));
        1 + sign + rest.bytes().skip(sign).take_while(u8::is_ascii_digit).count()
    });
    let end = digits + exponent.filter(|length| *length > 1).unwrap_or(0);
    let value = match whole.is_empty() {
        true => 0.0,
        false => text[..end].parse::<f64>().ok().filter(|value| value.is_finite())?,
    };
    let rest = &text[end..];
    if let Some(decimals) = rest.strip_prefix(',').filter(|_| !whole.is_empty() && !whole.contains('.')) {
        let count = decimals.bytes().take_while(u8::is_ascii_digit).count();
        if (1..=2).contains(&count) {
            let value = format!("{whole}.{}", &decimals[..count]).parse().ok()?;
            return Some((value, &decimals[count..]));
        }
    }
    for (mark, part) in [('½', 0.5), ('¼', 0.25), ('¾', 0.75)] {
        if let Some(rest) = rest.strip_prefix(mark) {
            return Some((value + part, rest));
        }
    }
    (!whole.is_empty()).then_some((value, rest))
}

fn unit(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    // "a 1-hour task"
    let joined = text.strip_prefix('-').filter(|rest| rest.starts_with(char::is_alphabetic));
    let text = joined.unwrap_or(text);
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let (unit, rest) = text.split_at(end);
    let known = UNITS.iter().find(|known| unit.eq_ignore_ascii_case(known));
    (known.copied().unwrap_or(if unit.is_empty() { "" } else { "?" }), rest.trim_start_matches('.').trim())
}

const UNITS: &[&str] = &[
    "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr", "hrs",
    "hour", "hours", "std", "d", "day", "days", "w", "week", "weeks",
];

/// The `30m` of `1h 30m`, in hours.
fn minutes_after(text: &str) -> f64 {
    let text = text.strip_prefix("and ").unwrap_or(text);
    match number(text).map(|(number, rest)| (number, unit(rest).0)) {
        Some((minutes, "m" | "min" | "mins" | "minute" | "minutes")) => minutes / 60.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_as_people_write_them() {
        let read = [
            ("8", 8.0),
            ("1.5", 1.5),
            ("8 hours", 8.0),
            ("8h", 8.0),
            ("~8", 8.0),
            ("30 minutes", 0.5),
            ("30m", 0.5),
            ("2-3 hours", 3.0),
            ("2–3h", 3.0),
            ("1h-2h", 2.0),
            ("2 to 3 hours", 3.0),
            ("4 hours (estimate)", 4.0),
            ("0", 0.0),
            ("1h 30m", 1.5),
            ("1 hour and 30 minutes", 1.5),
            ("2,5", 2.5),
            ("1½ hours", 1.5),
            ("½ day", 4.0),
            ("1 day", 8.0),
            ("2 weeks", 80.0),
            ("half a day", 4.0),
            ("20-25 hours across 3 phases", 25.0),
            ("about 2 hours", 2.0),
            ("< 1h", 1.0),
            ("**3 hrs**", 3.0),
            ("1e1", 10.0),
        ];
        for (text, hours_) in read {
            assert_eq!(hours(text), Some(hours_), "{text}");
        }
        for text in
            ["eight", "-1", "NaN", "1e400", "inf", "", "8 bananas", "1-", "--2", "TBD", "M", "3-2 h", "1.2.3"]
        {
            assert_eq!(hours(text), None, "{text}");
        }
        assert_eq!(seconds("90s"), Some(90.0));
        assert_eq!(seconds("2 hours"), Some(7200.0));
        assert_eq!(seconds("1 day"), Some(86_400.0));
        assert_eq!(seconds("30 seconds of silence"), None);
    }
}
