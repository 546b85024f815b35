//! The table of pairs: search, confidence, pruning.

use super::*;
use crate::learning::LearningMode;

const QUERY: [f32; 2] = [1.0, 0.0];
const ASKED: AskedQuery<'static> = AskedQuery { model: "m", vector: &QUERY, owner: None };
const BOUNDS: Pruning = Pruning { threshold: 5000, min_confidence: 0.1, unused_ms: 30 };

fn pair(id: &str, vector: &[f32], tool: &'static str) -> LearnedPair<&'static str> {
    LearnedPair {
        id: id.to_owned(),
        model: "m".into(),
        vector: vector.into(),
        tool,
        owner: None,
        confidence: 1.5,
        last_used: 0,
        corrects: true,
    }
}

/// A vector whose cosine with [`QUERY`] is `cosine`.
fn at(cosine: f32) -> [f32; 2] {
    [cosine, (1.0 - cosine * cosine).sqrt()]
}

#[test]
fn the_nearest_pairs_come_first_and_no_more_than_asked_for() {
    let mut learned = Learned::default();
    for (id, cosine) in [("far", 0.1), ("near", 0.9), ("middle", 0.5)] {
        assert!(learned.upsert(pair(id, &at(cosine), "t")));
    }
    let near = learned.nearest(&AskedQuery { vector: &[5.0, 0.0], ..ASKED }, 2);
    let ids: Vec<_> = near.iter().map(|(_, pair)| pair.id.as_str()).collect();
    assert_eq!(ids, ["near", "middle"]);
    assert!((near[0].0 - 0.9).abs() < 1e-6, "vectors are at unit length");
    assert!(learned.nearest(&AskedQuery { model: "another model", ..ASKED }, 5).is_empty());
    assert!(learned.nearest(&AskedQuery { vector: &[1.0], ..ASKED }, 5).is_empty(), "another width");
    assert!(!learned.upsert(pair("none", &[0.0, 0.0], "t")));
}

#[test]
fn a_pair_replaces_itself_and_can_be_removed() {
    let mut learned = Learned::default();
    learned.upsert(pair("a", &at(0.2), "t"));
    learned.upsert(LearnedPair { confidence: 0.7, ..pair("a", &at(0.3), "t") });
    assert_eq!((learned.len(), learned.get("a").map(|pair| pair.confidence)), (1, Some(0.7)));
    assert!(learned.remove("a") && !learned.remove("a") && learned.is_empty());
    learned.upsert(pair("b", &at(0.2), "t"));
    learned.clear();
    assert_eq!(learned.all().count(), 0);
    assert!(learned.nearest(&ASKED, 5).is_empty());
}

#[test]
fn confidence_is_mean_similarity_times_density() {
    let mut learned = Learned::default();
    assert!(learned.confidence(&ASKED, 0.6).abs() < f32::EPSILON);
    for (number, expected) in [(1, 0.1), (3, 0.3), (10, 1.0), (12, 1.0)] {
        for id in 0..number {
            learned.upsert(pair(&id.to_string(), &QUERY, "t"));
        }
        let confidence = learned.confidence(&ASKED, 0.6);
        assert!((confidence - expected).abs() < 1e-5, "{number}: {confidence}");
    }
}

#[test]
fn a_new_subject_stays_unknown_whatever_was_learned_about_others() {
    let mut learned = Learned::default();
    for id in 0..50 {
        learned.upsert(pair(&id.to_string(), &at(0.45), "t"));
    }
    assert!(learned.confidence(&ASKED, 0.6).abs() < f32::EPSILON);
    assert!(learned.recollect(&ASKED, 0.6, LearningMode::Promote).strengths.is_empty());
}

#[test]
fn the_weakest_and_the_unused_go() {
    let mut learned = Learned::default();
    for id in 0..5001_i32 {
        let confidence = 0.2 + f64::from(id) / 1e4;
        learned.upsert(LearnedPair { confidence, ..pair(&format!("{id:04}"), &QUERY, "t") });
    }
    let removed = learned.prune(BOUNDS, 30);
    assert_eq!((learned.len(), removed.len()), (4500, 501));
    assert!(learned.get("0000").is_none() && learned.get("5000").is_some());
    learned.upsert(LearnedPair { last_used: 31, ..pair("used", &QUERY, "t") });
    learned.upsert(LearnedPair { confidence: 0.09, last_used: 31, ..pair("weak", &QUERY, "t") });
    learned.prune(BOUNDS, 31);
    assert_eq!(learned.all().map(|pair| pair.id.as_str()).collect::<Vec<_>>(), ["used"]);
}

#[test]
fn an_owner_of_many_pairs_displaces_none_of_others() {
    let mut learned = Learned::default();
    let mut add = |owner: Option<&str>, count: usize, confidence: f64| {
        for number in 0..count {
            let id = format!("{owner:?} {number}");
            let owner = owner.map(Arc::from);
            learned.upsert(LearnedPair { owner, confidence, ..pair(&id, &QUERY, "t") });
        }
    };
    add(Some("quiet"), 100, 0.2);
    add(None, 1000, 0.3);
    add(Some("busy"), 4000, 1.5);
    assert_eq!(learned.prune(BOUNDS, 0).len(), 600);
    let kept = |owner: Option<&str>| learned.all().filter(|pair| pair.owner.as_deref() == owner).count();
    assert_eq!([kept(Some("quiet")), kept(None), kept(Some("busy"))], [100, 1000, 3400]);
}
