//! Runs that are kept: the process ends in the middle, and another one goes on.

use std::sync::Mutex;

use super::*;

/// Notes of a run, and the last state that it kept.
#[derive(Default)]
struct Notes {
    states: Mutex<Vec<String>>,
    phases: Mutex<Vec<String>>,
    is_broken: bool,
}

impl Journal for Notes {
    fn begins(&self, run: &str, _: Duration) {
        self.phases.lock().unwrap().push(format!("run {run}"));
    }

    fn step(&self, step: &str, phase: Phase, error: Option<&str>) {
        let error = error.map(|error| format!(" {error}")).unwrap_or_default();
        self.phases.lock().unwrap().push(format!("{step} {phase:?}{error}"));
    }

    fn keeps(&self) -> bool {
        true
    }

    async fn keep(&self, state: String) -> Result<(), String> {
        if self.is_broken {
            return Err("the store of runs does not answer".to_owned());
        }
        self.states.lock().unwrap().push(state);
        Ok(())
    }
}

/// Runs a tool whose process ends after `milliseconds`; returns the state that was kept last.
async fn killed(tool: &Arc<CompositeTool>, lab: &Lab, milliseconds: u64) -> String {
    let notes = Notes::default();
    let begin = Begin::New { id: "r1".to_owned(), arguments: Map::new() };
    let work = run(tool, lab, &notes, begin, Duration::from_secs(1));
    let cut = tokio::time::timeout(Duration::from_millis(milliseconds), work).await;
    assert!(cut.is_err(), "the run is under way: {cut:?}");
    notes.states.into_inner().unwrap().pop().expect("a state was kept")
}

async fn continued(tool: &Arc<CompositeTool>, lab: &Lab, state: String) -> (End, Vec<String>) {
    let notes = Notes::default();
    let begin = Begin::Continued { state, answers: Map::new() };
    let finished = run(tool, lab, &notes, begin, Duration::from_secs(2)).await.unwrap();
    assert_eq!(finished.id, "r1");
    (finished.end, notes.phases.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_not_be_repeated_is_unknown_after_the_end_of_its_process() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "write" },
        { "id": "b", "tool": "write", "dependsOn": ["a"] },
        { "id": "c", "tool": "write", "dependsOn": ["b"] }
    ]));
    // The first call ends after 10 ms, the second one is under way.
    let state = killed(&tool, &Lab::default(), 15).await;
    let lab = Lab::default();
    let (end, phases) = continued(&tool, &lab, state).await;
    let End::Unknown(error) = end else { panic!("{end:?}") };
    assert!(error.contains("step `b` is unknown") && error.contains("not repeated"), "{error}");
    assert_eq!(phases, ["run r1", "a Completed", "b Running", "b Unknown"]);
    assert!(lab.steps().is_empty(), "nothing is called");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_be_repeated_is_and_no_other() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "write" },
        { "id": "b", "tool": "slow50", "dependsOn": ["a"] },
        { "id": "c", "tool": "write", "dependsOn": ["b"] }
    ]));
    let state = killed(&tool, &Lab::default(), 30).await;
    let lab = Lab::default();
    let (end, _) = continued(&tool, &lab, state).await;
    assert!(matches!(end, End::Complete(_)), "{end:?}");
    assert_eq!(lab.steps(), ["b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn items_of_a_list_are_kept_one_by_one() {
    let each = |tool: &str| {
        with_steps(json!([
            { "id": "l", "type": "forEach", "collection": "[1, 2, 3]", "maxParallel": 1, "step": { "tool": tool } }
        ]))
    };
    let tool = each("write");
    let state = killed(&tool, &Lab::default(), 15).await;
    let (end, _) = continued(&tool, &Lab::default(), state).await;
    let End::Unknown(error) = end else { panic!("{end:?}") };
    assert!(error.contains("step `l[1]` is unknown"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_and_what_came_before_is_not_done_again() {
    let tool = with_steps(json!([
        { "id": "a", "tool": "write" },
        { "id": "q", "type": "elicitation", "message": "sure?", "schema": {}, "dependsOn": ["a"] },
        { "id": "b", "tool": "write", "dependsOn": ["q"] }
    ]));
    let notes = Notes::default();
    let begin = Begin::New { id: "r1".to_owned(), arguments: Map::new() };
    let asked = run(&tool, &Lab::default(), &notes, begin, Duration::from_secs(1)).await.unwrap();
    let End::Asks { questions, .. } = asked.end else { panic!("{asked:?}") };
    let state = notes.states.into_inner().unwrap().pop().unwrap();
    let lab = Lab::default();
    let (end, phases) = continued(&tool, &lab, state.clone()).await;
    let End::Asks { questions: again, .. } = end else { panic!("{end:?}") };
    assert_eq!(again, questions);
    assert_eq!(phases, ["run r1", "a Completed", "q Waiting"]);
    let answers = json!({ "q": { "action": "accept", "content": {} } });
    let answers = answers.as_object().cloned().unwrap();
    let begin = Begin::Continued { state, answers };
    let end = run(&tool, &lab, &(), begin, Duration::from_secs(3)).await.unwrap().end;
    assert!(matches!(end, End::Complete(_)), "{end:?}");
    assert_eq!(lab.steps(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_that_could_not_be_recorded() {
    let tool = with_steps(json!([{ "id": "a", "tool": "write" }]));
    let (lab, notes) = (Lab::default(), Notes { is_broken: true, ..Notes::default() });
    let begin = Begin::New { id: "r1".to_owned(), arguments: Map::new() };
    let end = run(&tool, &lab, &notes, begin, Duration::from_secs(1)).await.unwrap().end;
    assert_eq!(end, End::Failed("the store of runs does not answer".to_owned()));
    assert!(lab.steps().is_empty());
    // A tool that may be called again needs no record.
    let tool = with_steps(json!([{ "id": "a", "tool": "read" }]));
    let begin = Begin::New { id: "r1".to_owned(), arguments: Map::new() };
    let end = run(&tool, &lab, &notes, begin, Duration::from_secs(1)).await.unwrap().end;
    assert!(matches!(end, End::Complete(_)), "{end:?}");
}
