//! The table: one row for each promise.

/// One promise and what was measured.
pub struct Row {
    pub what: String,
    pub ours: String,
    /// What it is compared with, where it is compared with something.
    pub reference: String,
    pub ratio: String,
    pub target: String,
    /// `None` where it could not be measured.
    pub is_met: Option<bool>,
}

impl Row {
    /// A figure that has a limit of its own.
    pub fn limit(what: impl Into<String>, ours: f64, unit: &str, limit: f64) -> Row {
        Row {
            what: what.into(),
            ours: format!("{} {unit}", rounded(ours)),
            reference: "–".to_owned(),
            ratio: "–".to_owned(),
            target: format!("< {limit} {unit}"),
            is_met: Some(ours < limit),
        }
    }

    /// A figure that is judged beside a reference's.
    pub fn compared(what: impl Into<String>, ours: String, reference: String, ratio: f64, most: f64) -> Row {
        Row {
            what: what.into(),
            ours,
            reference,
            ratio: format!("{ratio:.2}×"),
            target: format!("≤ {most}×"),
            is_met: Some(ratio <= most),
        }
    }

    /// Something that could not be measured here, with the reason in the reference's place.
    pub fn unmeasured(what: impl Into<String>, why: &str, target: &str) -> Row {
        Row {
            what: what.into(),
            ours: "–".to_owned(),
            reference: why.to_owned(),
            ratio: "–".to_owned(),
            target: target.to_owned(),
            is_met: None,
        }
    }
}

/// Three figures that mean something.
pub fn rounded(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

pub fn render(rows: &[Row]) -> String {
    let mut text =
        String::from("| what | ours | reference | ratio | target | met |\n|---|---|---|---|---|---|\n");
    for row in rows {
        let met = match row.is_met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let Row { what, ours, reference, ratio, target, .. } = row;
        text.push_str(&format!("| {what} | {ours} | {reference} | {ratio} | {target} | {met} |\n"));
    }
    text
}
