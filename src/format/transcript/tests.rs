//! Scenes of lines that no recording has: odd bytes, odd orders, older versions, hostile text.

use super::*;

fn play(dialect: Dialect, lines: &[&str]) -> Spoken {
    let mut transcript = Transcript::new(dialect);
    for line in lines {
        transcript.push(line.as_bytes());
        transcript.push(b"\n");
    }
    transcript.finish()
}

fn progress_of(dialect: Dialect, line: &str) -> String {
    let mut transcript = Transcript::new(dialect);
    let update = transcript.push(format!("{line}\n").as_bytes());
    update.and_then(|update| update.progress).unwrap_or_default()
}

#[test]
fn plain_text_shows_its_last_line_and_ends_with_its_end() {
    let mut transcript = Transcript::new(Dialect::Plain);
    let update = transcript.push(b"compiling\n\n\x1b[1;32mtesting\x1b[0m\t now\n").unwrap();
    assert_eq!(update.progress.as_deref(), Some("testing now"));
    assert_eq!(transcript.push(b"all goo"), None, "half a line is not shown");
    let spoken = transcript.finish();
    assert_eq!(spoken.final_message.as_deref(), Some("compiling\n\ntesting\t now\nall goo"));
    assert_eq!((spoken.failure, spoken.warnings), (None, vec![]));
}

#[test]
fn json_in_plain_text_is_text() {
    let line = r#"{"type":"result","is_error":true,"total_cost_usd":5}"#;
    let spoken = play(Dialect::Plain, &[line]);
    assert_eq!((spoken.final_message.as_deref(), spoken.failure, spoken.cost_usd), (Some(line), None, None));
}

#[test]
fn a_long_plain_output_keeps_its_end_within_the_bound() {
    let mut transcript = Transcript::new(Dialect::Plain);
    for number in 0..20_000 {
        transcript.push(format!("line {number} grün\n").as_bytes());
    }
    let message = transcript.finish().final_message.unwrap();
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 64);
    assert!(message.ends_with("line 19999 grün"));
}

#[test]
fn what_a_progress_bar_drew_over_is_gone() {
    assert_eq!(progress_of(Dialect::Plain, "10 %\r50 %\r100 %\r"), "100 %");
}

#[test]
fn progress_is_one_line_of_at_most_200_characters_that_cannot_steer_a_terminal() {
    let hostile = "a\u{1b}]0;title\u{7}b\u{1b}[2Jc\u{202e}d\u{9b}e\u{0}";
    assert_eq!(progress_of(Dialect::Plain, hostile), "abcde");
    let long = progress_of(Dialect::Plain, &"ü ".repeat(300));
    assert_eq!(long.chars().count(), PROGRESS_CHARS_MAX);
    assert!(long.ends_with('…'));
    let exact = "ü".repeat(PROGRESS_CHARS_MAX);
    assert_eq!(progress_of(Dialect::Plain, &exact), exact);
}

#[test]
fn a_command_of_many_lines_shows_its_first() {
    let line = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"cargo test\nrm x"}}]}}"#;
    assert_eq!(progress_of(Dialect::Claude, line), "running: cargo test");
}

#[test]
fn a_cli_that_stops_before_its_first_event_is_quoted() {
    for dialect in Dialect::ALL.into_iter().filter(|dialect| *dialect != Dialect::Plain) {
        let spoken = play(dialect, &["Invalid API key. Please run /login", "{\"half\": "]);
        assert_eq!(spoken.final_message.as_deref(), Some("Invalid API key. Please run /login"));
        assert_eq!(spoken.warnings, [format!("nothing in the output is of the dialect `{dialect}`")]);
        assert_eq!(play(dialect, &[]).final_message, None);
    }
}

#[test]
fn nothing_that_can_be_printed_makes_a_reader_fall_over() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let kinds = [
        "system",
        "assistant",
        "result",
        "user",
        "turn.completed",
        "turn.failed",
        "error",
        "item.completed",
        "step_finish",
        "step_start",
        "text",
        "tool_use",
        "tool_result",
        "message",
        "init",
    ];
    let values = ["null", "7", "-1", "1e308", "\"x\"", "[]", "[[],null,{}]", "{}", "{\"type\":{}}"];
    let fields = [
        "message",
        "part",
        "item",
        "usage",
        "stats",
        "error",
        "result",
        "content",
        "role",
        "modelUsage",
        "permission_denials",
        "num_turns",
        "total_cost_usd",
        "subtype",
        "session_id",
        "errors",
    ];
    for dialect in Dialect::ALL {
        let mut transcript = Transcript::new(dialect);
        transcript.push(deep.as_bytes());
        transcript.push(b"\n\xff\xfe\x00\n{\"type\":\"\xff\"}\n\n{}\n[]\n[1,[2]]\nnull\n\"\n");
        for (kind, value) in kinds.iter().flat_map(|kind| values.map(|value| (kind, value))) {
            let rest = fields.map(|field| format!("\"{field}\":{value}")).join(",");
            transcript.push(format!("{{\"type\":\"{kind}\",{rest}}}\n").as_bytes());
        }
        let spoken = transcript.finish();
        assert!(spoken.warnings.len() <= 20);
    }
}

#[test]
fn a_line_beyond_the_bound_is_skipped_and_said_so() {
    let mut transcript = Transcript::new(Dialect::Codex);
    let line = format!(r#"{{"type":"error","message":"{}"}}"#, "x".repeat(LINE_BYTES_MAX));
    transcript.push(line.as_bytes());
    transcript.push(b"\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}");
    let spoken = transcript.finish();
    assert_eq!((spoken.tokens_used, spoken.failure), (Some(7), None));
    assert_eq!(spoken.warnings, ["1 line of the output skipped: longer than 1 MiB"]);
}

#[test]
fn a_message_is_cut_at_its_bound_between_two_characters() {
    let long = "ü".repeat(MESSAGE_BYTES_MAX);
    let line = format!(r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"a{long}"}}}}"#);
    let message = play(Dialect::Codex, &[&line]).final_message.unwrap();
    assert_eq!(message.len(), MESSAGE_BYTES_MAX - 1);

    let piece =
        format!(r#"{{"type":"message","role":"assistant","content":"{}","delta":true}}"#, "ü".repeat(999));
    let message = play(Dialect::Gemini, &vec![piece.as_str(); 100]).final_message.unwrap();
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 4);
}

#[test]
fn claude_counts_a_message_once_however_often_it_is_told() {
    let told = |id: &str, output: u64| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[],"usage":{{"input_tokens":100,"output_tokens":{output}}}}}}}"#
        )
    };
    let lines = [told("a", 1), told("a", 1), told("b", 2), told("a", 5)];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let spoken = play(Dialect::Claude, &lines);
    assert_eq!((spoken.tokens_used, spoken.turns), (Some(105 + 102), Some(2)));
    assert_eq!(spoken.warnings, ["the output ends before its result"]);
}

#[test]
fn claude_at_its_turn_limit_has_failed_even_where_it_does_not_call_that_an_error() {
    let spoken = play(
        Dialect::Claude,
        &[
            r#"{"type":"result","subtype":"error_max_turns","is_error":false,"num_turns":3,"total_cost_usd":0.5}"#,
        ],
    );
    assert_eq!(spoken.failure.as_deref(), Some("error max turns"));
    assert_eq!((spoken.turns, spoken.cost_usd), (Some(3), Some(0.5)));
}

#[test]
fn claude_printing_all_events_as_one_array_is_understood() {
    let spoken = play(
        Dialect::Claude,
        &[
            r#"[{"type":"system","subtype":"init","session_id":"s"},{"type":"result","subtype":"success","result":"Done."}]"#,
        ],
    );
    assert_eq!((spoken.final_message.as_deref(), spoken.session_id.as_deref()), (Some("Done."), Some("s")));
}

#[test]
fn what_a_sub_agent_says_is_not_the_last_word() {
    let said = |words: &str, parent: &str| {
        format!(
            r#"{{"type":"assistant","parent_tool_use_id":{parent},"message":{{"id":"{words}","content":[{{"type":"text","text":"{words}"}}]}}}}"#
        )
    };
    let (main, sub) = (said("main", "null"), said("sub", "\"toolu_1\""));
    assert_eq!(play(Dialect::Claude, &[&main, &sub]).final_message.as_deref(), Some("main"));
}

#[test]
fn codex_shows_how_much_of_its_plan_is_done() {
    let line = r#"{"type":"item.updated","item":{"type":"todo_list","items":[{"text":"read","completed":true},{"text":"write","completed":false}]}}"#;
    assert_eq!(progress_of(Dialect::Codex, line), "1 of 2 steps done: write");
}

#[test]
fn codex_that_ends_on_an_error_has_failed_without_a_failed_turn() {
    let spoken = play(Dialect::Codex, &[r#"{"type":"error","message":"no such thread"}"#]);
    assert_eq!(spoken.failure.as_deref(), Some("no such thread"));
}

#[test]
fn opencode_adds_the_steps_up_with_and_without_totals() {
    let with = r#"{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"total":10,"input":99},"cost":0.25}}"#;
    let without = r#"{"type":"step_finish","part":{"reason":"stop","tokens":{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}},"cost":0.5}}"#;
    let spoken = play(Dialect::Opencode, &[with, without]);
    assert_eq!((spoken.tokens_used, spoken.cost_usd, spoken.turns), (Some(25), Some(0.75), Some(2)));
    assert_eq!((spoken.failure, spoken.warnings), (None, vec![]));
}

#[test]
fn gemini_that_goes_on_after_an_error_has_not_failed() {
    let error = r#"{"type":"error","severity":"error","message":"lost the stream"}"#;
    let message = r#"{"type":"message","role":"assistant","content":"Done.","delta":true}"#;
    let result = r#"{"type":"result","status":"success","stats":{"total_tokens":5}}"#;
    assert_eq!(play(Dialect::Gemini, &[error, message, result]).failure, None);
    assert_eq!(play(Dialect::Gemini, &[message, error, result]).failure.as_deref(), Some("lost the stream"));
}

#[test]
fn an_update_comes_only_when_something_changed_and_totals_never_fall() {
    let mut transcript = Transcript::new(Dialect::Codex);
    let turn =
        |tokens: u64| format!("{{\"type\":\"turn.completed\",\"usage\":{{\"input_tokens\":{tokens}}}}}\n");
    assert_eq!(transcript.push(turn(9).as_bytes()).unwrap().tokens_used, Some(9));
    assert_eq!(transcript.push(turn(9).as_bytes()), None);
    assert_eq!(transcript.push(turn(4).as_bytes()), None);
    assert_eq!(transcript.finish().tokens_used, Some(9));
}

#[test]
fn an_amount_beyond_every_measure_is_none() {
    let mut transcript = Transcript::new(Dialect::Claude);
    transcript.push(br#"{"type":"result","subtype":"success","result":"done","total_cost_usd":1e308}"#);
    assert_eq!(transcript.finish().cost_usd, None);
}
