//! Fuzzes the configuration with arbitrary text: it is loaded, or every problem has a place and a remedy.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let environment =
        |name: &str| (!name.len().is_multiple_of(3)).then(|| "a value of some length".to_owned());
    match vmcp_config::load(text, "vmcp.yaml", &environment) {
        Ok(loaded) => {
            let effective = loaded.config.effective_yaml();
            assert!(serde_json::to_string(effective).is_ok_and(|text| text.len() > 100));
            assert!(loaded.warnings.iter().all(|warning| !warning.message.is_empty()));
        }
        Err(problems) => {
            assert!(!problems.list.is_empty(), "a refusal without a reason");
            // YAML ends a line with a carriage return, too.
            let lines = text.matches(['\n', '\r']).count() + 2;
            for problem in &problems.list {
                assert!(!problem.message.is_empty() && !problem.remedy.is_empty(), "{problem:?}");
                assert!(
                    problem.line.is_none_or(|line| (1..=lines).contains(&(line as usize))),
                    "{problem:?}"
                );
                assert!(problem.line.is_some() || problem.path.is_empty(), "{problem:?}");
            }
            assert!(!problems.to_string().is_empty());
        }
    }
});
