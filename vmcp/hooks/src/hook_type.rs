//! [`HookType`]: types of hooks. Each is understood in the spellings of clients: `UserPromptSubmit`,
//! `user-prompt-submit`, `user_prompt_submit`.

/// A type of hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookType {
    /// A session begins, or goes on.
    SessionStart,
    /// A session ends.
    SessionEnd,
    /// The person has sent a prompt; also `UserPromptSubmit`.
    PromptSubmit,
    /// The agent has finished its turn.
    Stop,
    /// The agent is about to call a tool.
    PreToolUse,
    /// A tool has answered.
    PostToolUse,
    /// The client is about to compact the context.
    PreCompact,
    /// A subagent begins.
    SubagentStart,
    /// A subagent has finished.
    SubagentStop,
    /// The client notifies the person.
    Notification,
    /// The context is compacted; Claude Code adds the summary that it made.
    PostCompact,
    /// The client asks the person for a permission.
    PermissionRequest,
    /// A call of a tool failed (Claude Code).
    PostToolUseFailure,
    /// The turn ended with an error (Claude Code).
    StopFailure,
    /// The person interrupted the turn (Codex).
    Interrupt,
}

/// Each name with its type. The first name of a type is shown.
const NAMES: [(&str, HookType); 16] = [
    ("SessionStart", HookType::SessionStart),
    ("SessionEnd", HookType::SessionEnd),
    ("PromptSubmit", HookType::PromptSubmit),
    ("UserPromptSubmit", HookType::PromptSubmit),
    ("Stop", HookType::Stop),
    ("PreToolUse", HookType::PreToolUse),
    ("PostToolUse", HookType::PostToolUse),
    ("PreCompact", HookType::PreCompact),
    ("SubagentStart", HookType::SubagentStart),
    ("SubagentStop", HookType::SubagentStop),
    ("Notification", HookType::Notification),
    ("PostCompact", HookType::PostCompact),
    ("PermissionRequest", HookType::PermissionRequest),
    ("PostToolUseFailure", HookType::PostToolUseFailure),
    ("StopFailure", HookType::StopFailure),
    ("Interrupt", HookType::Interrupt),
];

impl HookType {
    /// Returns the type of a name in any spelling; `None` for an unknown one.
    pub fn from_name(name: &str) -> Option<HookType> {
        let plain = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
        let wanted = plain(name);
        NAMES.iter().find(|(known, _)| plain(known) == wanted).map(|(_, hook_type)| *hook_type)
    }

    /// Returns all names that are understood, as clients write them.
    pub fn available() -> [&'static str; 16] {
        NAMES.map(|(name, _)| name)
    }

    /// Returns the normalized name: lower case, with hyphens. `PromptSubmit` is `user-prompt-submit`.
    pub fn normalized(self) -> &'static str {
        match self {
            HookType::SessionStart => "session-start",
            HookType::SessionEnd => "session-end",
            HookType::PromptSubmit => "user-prompt-submit",
            HookType::Stop => "stop",
            HookType::PreToolUse => "pre-tool-use",
            HookType::PostToolUse => "post-tool-use",
            HookType::PreCompact => "pre-compact",
            HookType::SubagentStart => "subagent-start",
            HookType::SubagentStop => "subagent-stop",
            HookType::Notification => "notification",
            HookType::PostCompact => "post-compact",
            HookType::PermissionRequest => "permission-request",
            HookType::PostToolUseFailure => "post-tool-use-failure",
            HookType::StopFailure => "stop-failure",
            HookType::Interrupt => "interrupt",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_other_spellings_normalize() {
        for (name, normalized) in [
            ("SessionStart", "session-start"),
            ("SessionEnd", "session-end"),
            ("PromptSubmit", "user-prompt-submit"),
            ("UserPromptSubmit", "user-prompt-submit"),
            ("Stop", "stop"),
            ("PreToolUse", "pre-tool-use"),
            ("PostToolUse", "post-tool-use"),
            ("PreCompact", "pre-compact"),
            ("SubagentStart", "subagent-start"),
            ("SubagentStop", "subagent-stop"),
            ("Notification", "notification"),
            ("PostCompact", "post-compact"),
            ("PermissionRequest", "permission-request"),
            ("PostToolUseFailure", "post-tool-use-failure"),
            ("StopFailure", "stop-failure"),
            ("Interrupt", "interrupt"),
        ] {
            let kebab = |name: &str| {
                let mut kebab = String::new();
                for letter in name.chars() {
                    if letter.is_uppercase() && !kebab.is_empty() {
                        kebab.push('-');
                    }
                    kebab.extend(letter.to_lowercase());
                }
                kebab
            };
            for spelling in
                [name.to_owned(), kebab(name), kebab(name).replace('-', "_"), normalized.to_owned()]
            {
                let found = HookType::from_name(&spelling).map(HookType::normalized);
                assert_eq!(found, Some(normalized), "{spelling}");
            }
        }
        assert_eq!(HookType::from_name("Whatever"), None);
        assert_eq!(HookType::from_name(""), None);
    }
}
