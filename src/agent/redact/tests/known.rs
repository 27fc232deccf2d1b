//! Known values, in every encoding that a log may carry.

use super::{Redactor, check, check_with, redact};

const VALUE: &str = "p4ss/w&rd \"x\" <y>'z$`é\\~+";

/// The standard encoding by a second hand: bit by bit through a text of digits.
fn base64(bytes: &[u8], is_url_safe: bool, is_padded: bool) -> String {
    let bits = bytes.iter().map(|byte| format!("{byte:08b}")).collect::<Vec<_>>().concat();
    let sign = |bits: &str| {
        let last = if is_url_safe { "-_" } else { "+/" };
        let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(last.chars()).collect();
        alphabet[usize::from_str_radix(&format!("{bits:0<6}"), 2).unwrap()]
    };
    let mut text: String =
        (0..bits.len()).step_by(6).map(|at| sign(&bits[at..bits.len().min(at + 6)])).collect();
    while is_padded && !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

fn known(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

#[test]
fn a_known_value_is_removed_in_every_encoding_and_however_it_is_cut() {
    let forms = [
        VALUE,
        "p4ss%2Fw%26rd%20%22x%22%20%3Cy%3E'z%24%60%C3%A9%5C~%2B",
        "p4ss%2fw%26rd%20%22x%22%20%3cy%3e%27z%24%60%c3%a9%5c~%2b",
        "p4ss/w%26rd%20%22x%22%20%3Cy%3E%27z%24%60%C3%A9%5C~%2B",
        "p4ss%2Fw%26rd+%22x%22+%3Cy%3E%27z%24%60%C3%A9%5C%7E%2B",
        r#"p4ss/w&rd \"x\" <y>'z$`é\\~+"#,
        r#"p4ss\/w&rd \"x\" <y>'z$`é\\~+"#,
        r#"p4ss/w\u0026rd \"x\" \u003cy\u003e\u0027z$`é\\~+"#,
        r#"p4ss\/w\u0026rd \"x\" \u003Cy\u003E\u0027z$`\u00E9\\~+"#,
        r"p4ss/w&rd \u0022x\u0022 <y>'z$`\u00e9\u005c~+",
        r#"p4ss/w&rd \\\"x\\\" <y>'z$`é\\\\~+"#,
        r#"p4ss/w&rd "x" <y>'\''z$`é\~+"#,
        r#"p4ss/w&rd "x" <y>'"'"'z$`é\~+"#,
        r#"p4ss/w&rd \"x\" <y>'z\$\`é\\~+"#,
        r#"p4ss/w\&rd\ \"x\"\ \<y\>\'z\$\`é\\\~+"#,
        r#"p4ss/w&rd "x" <y>\'z$`é\\~+"#,
        r"p4ss/w\u0026rd \u0022x\u0022 \u003Cy\u003E\u0027z$\u0060\u00E9\\~\u002B",
        r#"p4ss/w&rd "x" <y>\'z$`\xe9\\~+"#,
        r#"p4ss/w&rd "x" <y>\'z$`\xc3\xa9\\~+"#,
        r#"p4ss/w&rd \"x\" <y>'z$`\xe9\\~+"#,
        r#"p4ss/w&amp;rd "x" &lt;y&gt;'z$`é\~+"#,
        r"p4ss/w&amp;rd &quot;x&quot; &lt;y&gt;'z$`é\~+",
        r"p4ss/w&amp;rd &quot;x&quot; &lt;y&gt;&#39;z$`é\~+",
        r"p4ss/w&amp;rd &quot;x&quot; &lt;y&gt;&#x27;z$`é\~+",
        r"p4ss/w&amp;rd &quot;x&quot; &lt;y&gt;&apos;z$`é\~+",
        r"p4ss/w&amp;rd &#34;x&#34; &lt;y&gt;&#39;z$`é\~+",
        r"p4ss/w&amp;rd &#34;x&#34; &lt;y&gt;&#39;z$`é\~&#43;",
        "703473732f7726726420227822203c793e277a2460c3a95c7e2b",
        "703473732F7726726420227822203C793E277A2460C3A95C7E2B",
    ];
    let mut redactor = Redactor::new(known(VALUE));
    for form in forms {
        for place in ["@", "a @ b\n", "{\"v\":\"@\"}\n", "V='@'\n"] {
            check_with(&mut redactor, &place.replace('@', form), &place.replace('@', "[redacted:known]"));
        }
    }
}

#[test]
fn a_known_value_is_removed_from_base64_at_any_alignment_and_in_either_alphabet() {
    for value in [VALUE, "plainvalue", "exactly8", "~~~???>>>~~~", "tenletters12"] {
        let mut redactor = Redactor::new(known(value));
        for before in ["", "u", "us", "bob:"] {
            for behind in ["", "\n", "12"] {
                for (is_url_safe, is_padded) in [(false, true), (false, false), (true, true), (true, false)] {
                    let encoded =
                        base64(format!("{before}{value}{behind}").as_bytes(), is_url_safe, is_padded);
                    let text = format!("data {encoded} end\n");
                    let out = redact(&text, &known(value));
                    assert!(out.contains("[redacted:known]"), "{before:?} {value} {behind:?}: {out}");
                    let left = out.len() - "data [redacted:known] end\n".len();
                    let around = 4 * (before.len() + behind.len()).div_ceil(3) + 4;
                    assert!(left <= around, "{before:?} {value} {behind:?}: {out}");
                    check_with(&mut redactor, &text, &out);
                }
            }
        }
    }
}

#[test]
fn a_known_value_that_looks_like_base64_is_removed_however_json_escapes_it() {
    let value = "c2Vj/cmV0+dG9r==";
    for form in [value, r"c2Vj/cmV0\u002BdG9r==", r"c2Vj/cmV0+dG9r\u003d\u003d", r"c2Vj\/cmV0+dG9r=="] {
        check(&format!("{{\"v\":\"{form}\"}}\n"), &known(value), "{\"v\":\"[redacted:known]\"}\n");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// In lines of this many characters, as encoders write them.
fn wrapped(code: &str, width: usize, line_end: &str) -> String {
    let lines: Vec<&str> =
        code.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(line_end)
}

#[test]
fn a_known_value_is_removed_from_codes_that_are_wrapped() {
    let value = super::random_text(130, 6);
    let (standard, url_safe) = (base64(value.as_bytes(), false, true), base64(value.as_bytes(), true, false));
    let mut redactor = Redactor::new(known(&value));
    let digits = hex(value.as_bytes());
    let codes = [
        (&standard, 76),
        (&standard, 64),
        (&url_safe, 76),
        (&digits, 60),
        (&digits.to_ascii_uppercase(), 60),
    ];
    for (code, width) in codes {
        for line_end in ["\n", "\r\n", r"\n", r"\r\n", r"\\n", r"\\r\\n"] {
            let text = format!("a\n{}\nb\n", wrapped(code, width, line_end));
            check_with(&mut redactor, &text, "a\n[redacted:known]\nb\n");
        }
    }
}

#[test]
fn a_known_value_is_removed_from_wrapped_codes_wherever_in_them_it_stands() {
    let value = "correct-horse-battery-staple";
    let mut redactor = Redactor::new(known(value));
    let in_base64 = |bytes: &[u8]| base64(bytes, false, true);
    for (encode, width) in [(in_base64 as fn(&[u8]) -> String, 76), (in_base64, 64), (hex, 60)] {
        for before in 30..100 {
            let text = format!("{}{value}{}", super::random_text(before, 3), super::random_text(9, 4));
            let code = format!("{}\n", wrapped(&encode(text.as_bytes()), width, "\n"));
            let out = redact(&code, &known(value));
            let around = code.len() - encode(value.as_bytes()).trim_end_matches('=').len();
            let left = out.len() - "[redacted:known]".len();
            assert!(out.contains("[redacted:known]") && left <= around + 3, "{before} at {width}: {out}");
            if before % 7 == 0 {
                check_with(&mut redactor, &code, &out);
            }
        }
    }
}

#[test]
fn lines_of_a_code_without_the_value_stay_as_they_are() {
    let value = "correct-horse-battery-staple";
    let code = base64(super::random_text(400, 8).as_bytes(), false, true);
    let lines = format!("{}\n", wrapped(&code, 76, "\n"));
    check(&lines, &known(value), &lines);
}

#[test]
fn exactly_encoded_values_leave_nothing_behind() {
    for value in ["exactly8", "ninebytes", "ten bytes!"] {
        let text = format!("a {}\n", base64(value.as_bytes(), false, true));
        check(&text, &known(value), "a [redacted:known]\n");
    }
}

#[test]
fn a_value_of_many_lines_is_removed_whole_and_line_by_line() {
    let value = "first line of it\nsecond line of it\nshort\nthird line of it\n";
    check(&format!("a\n{value}b\n"), &known(value), "a\n[redacted:known]b\n");
    check("> second line of it\n> b\n", &known(value), "> [redacted:known]\n> b\n");
    check(
        r#"{"v":"first line of it\nsecond line of it\nshort\nthird line of it\n"}"#,
        &known(value),
        r#"{"v":"[redacted:known]"}"#,
    );
}

#[test]
fn a_very_long_value_is_removed_as_one() {
    let value = super::random_text(3000, 5);
    for text in [value.clone(), base64(value.as_bytes(), false, true)] {
        let out = redact(&format!("a {text} b"), &known(&value));
        assert_eq!(out, "a [redacted:known] b");
    }
    let bytes = format!("a {value} b");
    let single: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
    assert_eq!(super::through(&single, &known(&value)), b"a [redacted:known] b");
}

#[test]
fn values_shorter_than_eight_bytes_are_left_alone() {
    check("the word test12 stays\n", &known("test12"), "the word test12 stays\n");
    check("", &known(""), "");
}

#[test]
fn the_beginning_of_a_known_value_is_no_secret() {
    check("hunter2hunter\nhunter2hunter2", &known("hunter2hunter2"), "hunter2hunter\n[redacted:known]");
}

#[test]
fn values_that_overlap_or_share_a_beginning_are_removed_as_one() {
    let values = vec!["abcdefgh".to_owned(), "abcdefghijkl".to_owned(), "ijklmnop".to_owned()];
    check("1 abcdefghijklmnop 2\n", &values, "1 [redacted:known] 2\n");
    check("1 abcdefgh 2\n", &values, "1 [redacted:known] 2\n");
}

#[test]
fn a_known_value_that_looks_like_a_token_is_called_known() {
    let token = format!("ghp_{}", super::random_text(36, 4));
    check(&format!("T {token}\n"), &known(&token), "T [redacted:known]\n");
}

#[test]
fn hundreds_of_known_values_are_found_as_well() {
    let values: Vec<String> = (0..400).map(|seed| super::random_text(20, 1000 + seed)).collect();
    let text = values.iter().map(|value| format!("v={value};\n")).collect::<Vec<_>>().concat();
    assert_eq!(redact(&text, &values), "v=[redacted:known];\n".repeat(400));
}
