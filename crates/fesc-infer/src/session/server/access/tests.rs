#![allow(clippy::unwrap_used)]
use super::*;

const A: [u8; 32] = [1; 32];

fn asked(reveal: Reveal) -> Asked {
    Asked { kind: "run".into(), bucket: 128, plan: "fast".into(), reveal }
}

fn options(directory: &Path, clients: Option<&str>) -> AccessOptions {
    let path = directory.join("clients");
    AccessOptions {
        clients: clients.map(|text| {
            std::fs::write(&path, text).unwrap();
            path
        }),
        state: directory.join("state"),
        log: directory.join("state/sessions.jsonl"),
        log_bytes: 1 << 20,
    }
}

fn fingerprint(bytes: [u8; 32]) -> Fingerprint {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<String>().parse().unwrap()
}

fn lines(directory: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(directory.join("state/sessions.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kind(refused: std::result::Result<(), Refusal>) -> RefusalKind {
    refused.unwrap_err().kind
}

#[test]
fn only_listed_clients_are_admitted_and_the_list_may_change_at_any_time() {
    let directory = tempfile::tempdir().unwrap();
    let entry = format!("one {} sessions=2", fingerprint(A));
    let access = Access::open(&options(directory.path(), Some(&entry))).unwrap();
    let admit = |shown: Option<[u8; 32]>| access.admit(shown.map(fingerprint)).unwrap();
    assert_eq!(admit(Some(A)).unwrap().unwrap().name, "one");
    for stranger in [None, Some([2; 32])] {
        let refusal = admit(stranger).unwrap_err();
        assert_eq!((refusal.kind, refusal.message.as_str()), (RefusalKind::NotListed, NOT_LISTED));
    }
    std::fs::write(directory.path().join("clients"), "# nobody\n").unwrap();
    assert!(admit(Some(A)).is_err(), "taken off a moment ago");
    std::fs::write(directory.path().join("clients"), "broken").unwrap();
    assert!(access.admit(Some(fingerprint(A))).is_err(), "a list that cannot be read admits nobody");
    drop(access);
    let everybody = Access::open(&options(directory.path(), None)).unwrap();
    assert!(everybody.admit(None).unwrap().unwrap().is_none());
}

#[test]
fn budgets_are_counted_by_day_and_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let entry = format!("one {} sessions=3 logits=1", fingerprint(A));
    let open = || Access::open(&options(directory.path(), Some(&entry))).unwrap();
    let access = open();
    let client = access.admit(Some(fingerprint(A))).unwrap().unwrap();
    let today = now() / DAY * DAY + 100;
    let charge = |access: &Access, time, number: u64, reveal| {
        access.charge_at(time, number, number.to_le_bytes(), client.as_ref(), asked(reveal)).unwrap()
    };
    charge(&access, today, 1, Reveal::Logits).unwrap();
    assert_eq!(kind(charge(&access, today, 2, Reveal::Logits)), RefusalKind::Budget);
    charge(&access, today, 3, Reveal::Label).unwrap();
    access.finish(1, 0, Some(7)).unwrap();
    // The process ends with session 3 under way.
    drop(access);
    let access = open();
    charge(&access, today, 4, Reveal::Label).unwrap();
    let refused = charge(&access, today, 5, Reveal::Label).unwrap_err();
    assert!(
        refused.message.contains("3 sessions a day") && refused.message.contains("24 hours"),
        "{}",
        refused.message
    );
    let prepare = Asked { kind: "prepare".into(), ..asked(Reveal::Label) };
    for number in 20..40 {
        assert_eq!(kind(charge(&access, today, number, Reveal::Label)), RefusalKind::Budget);
    }
    access.charge_at(today, 6, [6; 8], client.as_ref(), prepare).unwrap().unwrap();
    charge(&access, today + DAY, 7, Reveal::Logits).unwrap();
    access.finish(4, 3, None).unwrap();
    access.finish(4, 0, None).unwrap();
    let seen: Vec<(Ending, u8, bool)> =
        lines(directory.path()).into_iter().map(|l| (l.result, l.code, l.seconds.is_some())).collect();
    let expected = [
        (Ending::Refused, 5, false),
        (Ending::Done, 0, true),
        (Ending::Lost, 1, false),
        (Ending::Refused, 5, false),
        (Ending::Refused, 5, false),
        (Ending::Refused, 5, false),
        (Ending::Refused, 5, false),
        (Ending::Refused, 5, false),
        (Ending::Failed, 3, true),
    ];
    assert_eq!(seen, expected);
}

/// A crash between the line and the mark that it is written makes no second line.
#[test]
fn each_granted_session_has_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Access::open(&options(directory.path(), None)).unwrap();
    let access = open();
    for number in 0..4u64 {
        access.charge(number, number.to_le_bytes(), None, asked(Reveal::Label)).unwrap().unwrap();
    }
    access.finish(0, 0, Some(1)).unwrap();
    let crashed = access.opened().remove(&1).unwrap();
    access.log.add(&crashed.line(0, Ending::Done, Some(1.0), None)).unwrap();
    drop(access);
    drop(open());
    let endings: Vec<Ending> = lines(directory.path()).into_iter().map(|l| l.result).collect();
    assert_eq!(endings, [Ending::Done, Ending::Done, Ending::Lost, Ending::Lost]);
    drop(open());
    assert_eq!(lines(directory.path()).len(), 4, "and only once");
}

#[test]
fn many_grants_become_few_entries_with_the_same_counts() {
    let asked = asked(Reveal::Logits);
    let granted = |n: u64, name: &str, day: u64| Entry::Granted {
        session: n.to_string(),
        time: day * DAY + n,
        client: Some(name.into()),
        asked: asked.clone(),
    };
    let mut entries: Vec<Entry> = (0..10).map(|n| granted(n, if n < 7 { "one" } else { "two" }, 9)).collect();
    entries.push(granted(10, "one", 8));
    entries.extend((0..6).chain([10]).map(|n: u64| Entry::Ended(n.to_string())));
    let less = short(&entries, 9 * DAY + 5);
    assert_eq!(less.len(), 2 + 4, "{less:?}");
    for name in ["one", "two"] {
        assert_eq!(counts(&less, name, 9), counts(&entries, name, 9));
    }
    assert_eq!(counts(&less, "one", 9), Counts { sessions: 7, logits: 7 });
    assert_eq!(short(&less, 9 * DAY), less);
    assert_eq!(counts(&short(&less, 10 * DAY), "one", 9), counts(&entries, "one", 9), "a clock may be set back");
    assert_eq!(short(&less, 12 * DAY).len(), 4, "later: only what still runs");
}

#[test]
fn a_state_directory_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    let first = Access::open(&options(directory.path(), None)).unwrap();
    let second = Access::open(&options(directory.path(), None)).err().unwrap().to_string();
    assert!(second.contains("another server"), "{second}");
    drop(first);
    Access::open(&options(directory.path(), None)).unwrap();
}
