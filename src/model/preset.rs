//! The coding CLIs that we know by name: how each is started without a person at the keyboard, and in
//! which dialect it then speaks. Data only: nobody here starts, finds or configures anything.
//!
//! A preset gives the least that lets a CLI work unattended. Whoever wants more writes the command
//! into the settings, where it can be seen.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Stands in an argument for the whole prompt.
pub const PROMPT_PLACE: &str = "{prompt}";

/// Stands in an argument for the text of the task's `shell` field.
pub const SHELL_PLACE: &str = "{shell}";

/// How an agent's standard output is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Text for people.
    #[default]
    Plain,
    /// `claude --output-format stream-json`
    Claude,
    /// `codex exec --json`
    Codex,
    /// `opencode run --format json`
    Opencode,
    /// `gemini --output-format stream-json`
    Gemini,
}

impl Dialect {
    pub const ALL: [Dialect; 5] =
        [Dialect::Plain, Dialect::Claude, Dialect::Codex, Dialect::Opencode, Dialect::Gemini];

    pub fn word(self) -> &'static str {
        match self {
            Dialect::Plain => "plain",
            Dialect::Claude => "claude",
            Dialect::Codex => "codex",
            Dialect::Opencode => "opencode",
            Dialect::Gemini => "gemini",
        }
    }

    pub fn parse(word: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.word() == word)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// How the prompt reaches the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptVia {
    /// On standard input, which is then closed.
    Stdin,
    /// In place of the argument `{prompt}`.
    Argument,
    /// Not at all: the agent reads its spec.
    None,
}

impl PromptVia {
    pub const ALL: [PromptVia; 3] = [PromptVia::Stdin, PromptVia::Argument, PromptVia::None];

    pub fn word(self) -> &'static str {
        match self {
            PromptVia::Stdin => "stdin",
            PromptVia::Argument => "argument",
            PromptVia::None => "none",
        }
    }

    pub fn parse(word: &str) -> Option<PromptVia> {
        PromptVia::ALL.into_iter().find(|via| via.word() == word)
    }
}

/// A CLI that can be named instead of spelled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    /// Program and arguments; no shell ever splits or expands them.
    pub command: &'static [&'static str],
    pub prompt_via: PromptVia,
    pub dialect: Dialect,
    /// Variables that it signs in with or finds its configuration by. All are optional; they pass
    /// through where they are set, beside what every agent gets (`PATH`, `HOME` and the like).
    pub environment: &'static [&'static str],
    /// What it is and what it may do, in one line.
    pub about: &'static str,
}

impl Preset {
    /// The preset of that name.
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

/// Every preset. All four CLIs read the prompt from standard input: there it may be longer than an argument,
/// shows up in no process list, and is never taken for an option because it begins with a dash.
pub const PRESETS: [Preset; 5] = [
    Preset {
        name: "claude",
        // `--verbose`: without it `-p` refuses stream-json. `acceptEdits`: files in the working
        // directory may be changed and harmless commands run; what would need a person's consent is
        // refused and told; so is `git commit`. Not `bypassPermissions`: that runs any command on the
        // whole machine.
        command: &[
            "claude",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "acceptEdits",
        ],
        prompt_via: PromptVia::Stdin,
        dialect: Dialect::Claude,
        environment: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CONFIG_DIR",
        ],
        about: "Claude Code; edits files, runs harmless commands, is refused the rest (allow more with --allowedTools)",
    },
    Preset {
        name: "codex",
        // `workspace-write`: its own sandbox lets commands write below the working directory only and
        // keeps them off the network; the default is read-only, in which no work gets done. `.git` stays
        // read-only in it, so it cannot commit.
        // `--skip-git-repo-check`: a task's directory need not be a repository. `-`: standard input.
        command: &["codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write", "-"],
        prompt_via: PromptVia::Stdin,
        dialect: Dialect::Codex,
        environment: &["CODEX_API_KEY", "CODEX_HOME", "OPENAI_API_KEY", "OPENAI_BASE_URL"],
        about: "Codex; edits and runs commands in its own sandbox: the working directory, no network",
    },
    Preset {
        name: "opencode",
        // No `--auto`: without it opencode edits and runs commands already, and refuses calls that name
        // a path outside the working directory. It has no sandbox; a refusal ends the run with exit
        // code 0.
        command: &["opencode", "run", "--format", "json"],
        prompt_via: PromptVia::Stdin,
        dialect: Dialect::Opencode,
        environment: &[
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENAI_API_KEY",
            "OPENCODE_API_KEY",
            "OPENCODE_CONFIG",
            "OPENCODE_CONFIG_CONTENT",
            "OPENCODE_CONFIG_DIR",
            "OPENCODE_PERMISSION",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
        ],
        about: "opencode; edits and runs commands freely, but for tool calls that name a path outside the working directory",
    },
    Preset {
        name: "gemini",
        // `auto_edit`: files may be changed; the shell is not offered to the model at all. Not `yolo`:
        // that runs any command. `--skip-trust`: in a directory that nobody trusted by hand it would
        // stop at once with exit code 55, and forget the approval mode. No `-p`: standard input that
        // is not a terminal makes it headless, and `-p` would only append to it.
        command: &[
            "gemini",
            "--output-format",
            "stream-json",
            "--approval-mode",
            "auto_edit",
            "--skip-trust",
        ],
        prompt_via: PromptVia::Stdin,
        dialect: Dialect::Gemini,
        environment: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_LOCATION",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_GENAI_USE_VERTEXAI",
        ],
        about: "Gemini CLI; edits files, runs no commands (allow them with a --policy file)",
    },
    Preset {
        name: "shell",
        // The text comes from the task's `shell` field, which policy has to allow, and from nowhere
        // else. The prompt is data on standard input: `sh -s` would run it.
        command: &["sh", "-c", SHELL_PLACE],
        prompt_via: PromptVia::Stdin,
        dialect: Dialect::Plain,
        environment: &[],
        about: "the task's own `shell` text through sh -c; its prompt arrives on standard input",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_found_by_its_word_and_has_the_same_word_in_json() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::parse(dialect.word()), Some(dialect));
            assert_eq!(serde_json::to_value(dialect).unwrap(), dialect.word());
        }
        assert_eq!(Dialect::parse("Claude"), None);
    }

    #[test]
    fn every_preset_is_found_by_its_name_and_no_name_is_taken_twice() {
        for preset in &PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("sh"), None);
    }

    #[test]
    fn a_prompt_has_a_place_in_the_arguments_exactly_when_it_travels_there() {
        for preset in &PRESETS {
            let places = preset.command.iter().filter(|argument| argument.contains(PROMPT_PLACE)).count();
            let wanted = usize::from(preset.prompt_via == PromptVia::Argument);
            assert_eq!(places, wanted, "{}", preset.name);
        }
    }

    #[test]
    fn only_the_shell_preset_names_a_shell_and_it_never_reads_its_program_from_the_prompt() {
        for preset in &PRESETS {
            let has_shell = ["sh", "bash"].contains(&preset.command[0]);
            assert_eq!(has_shell, preset.name == "shell", "{}", preset.name);
        }
        assert_eq!(Preset::named("shell").unwrap().command, ["sh", "-c", "{shell}"]);
    }

    #[test]
    fn no_preset_switches_all_permissions_off() {
        let without_limits = ["bypass", "dangerous", "yolo", "--auto", "danger-full-access"];
        for preset in &PRESETS {
            for word in without_limits {
                assert!(!preset.command.iter().any(|argument| argument.contains(word)), "{}", preset.name);
            }
        }
    }
}
