//! Archives that somebody made to do harm: each is refused, and nothing outside of the tree changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};
use watchkeeper::model::tree::Digest;
use watchkeeper::work_tree::Hand;
use watchkeeper::work_tree::checkpoint::{ArchiveError, extract};
use watchkeeper::work_tree::scan;
use watchkeeper::work_tree::undo::UndoError;

use crate::scene::{Scene, picture};

const GOOD: &[u8] = b"good content";
const OTHER: &[u8] = b"other content";

fn digest(bytes: &[u8]) -> Digest {
    Digest::parse(&watchkeeper::bus::sha256(bytes)).unwrap()
}

fn named(bytes: &[u8]) -> String {
    format!("objects/{}", digest(bytes))
}

/// One entry with any name, kind and size, right or wrong.
fn entry(name: &str, kind: EntryType, link: &str, bytes: &[u8], size: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    let place = &mut header.as_old_mut().name;
    place[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o6755);
    header.set_cksum();
    let mut all = header.as_bytes().to_vec();
    all.extend_from_slice(bytes);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

fn file(name: &str, bytes: &[u8]) -> Vec<u8> {
    entry(name, EntryType::Regular, "", bytes, bytes.len() as u64)
}

fn zipped(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    parts.iter().for_each(|part| encoder.write_all(part).unwrap());
    encoder.finish().unwrap()
}

fn end() -> Vec<u8> {
    vec![0; 1024]
}

/// What the extractor makes of an archive when the manifest knows two contents and one is wanted.
fn verdict(archive: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let known = BTreeMap::from([GOOD, OTHER].map(|bytes| (digest(bytes), bytes.len() as u64)));
    let mut taken = Vec::new();
    let wanted = BTreeSet::from([digest(GOOD)]);
    extract(archive, &known, &wanted, |_, part| {
        taken.extend_from_slice(part.unwrap_or_default());
        Ok(())
    })?;
    Ok(taken)
}

fn refused(what: &str, parts: &[Vec<u8>], is_right: fn(&ArchiveError) -> bool) {
    let verdict = verdict(&zipped(parts));
    let error = verdict.expect_err(what);
    assert!(is_right(&error), "{what}: {error:?}");
}

#[test]
fn a_plain_archive_gives_what_is_wanted() {
    let archive = zipped(&[file(&named(OTHER), OTHER), file(&named(GOOD), GOOD), end()]);
    assert_eq!(verdict(&archive).unwrap(), GOOD);
    let in_two = [zipped(&[file(&named(OTHER), OTHER)]), zipped(&[file(&named(GOOD), GOOD), end()])];
    assert_eq!(verdict(&in_two.concat()).unwrap(), GOOD);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let good = named(GOOD);
    for name in [
        "../canary",
        "/etc/canary",
        "objects/../../canary",
        &format!("./{good}"),
        &format!("/{good}"),
        &good.to_uppercase(),
        &format!("{good}/x"),
        &good[..good.len() - 1],
        "objects/",
        "",
    ] {
        let is_right = |error: &ArchiveError| matches!(error, ArchiveError::Unknown(_));
        refused(name, &[file(name, GOOD), file(&named(GOOD), GOOD), end()], is_right);
    }
    // A content that is right in itself, but none of this checkpoint.
    let is_right = |error: &ArchiveError| matches!(error, ArchiveError::Unknown(_));
    refused("unknown", &[file(&named(b"x"), b"x"), file(&named(GOOD), GOOD), end()], is_right);
}

#[test]
fn whatever_is_no_plain_file_is_refused_even_under_a_good_name() {
    let kinds = [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
        EntryType::Continuous,
        EntryType::GNUSparse,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ];
    for kind in kinds {
        let is_right = |error: &ArchiveError| matches!(error, ArchiveError::NotPlain { .. });
        let link = entry(&named(GOOD), kind, "/etc/passwd", GOOD, GOOD.len() as u64);
        refused(&format!("{kind:?}"), &[link, file(&named(GOOD), GOOD), end()], is_right);
    }
    let is_right = |error: &ArchiveError| matches!(error, ArchiveError::NotPlain { .. });
    let linked = entry(&named(GOOD), EntryType::Regular, "/etc/passwd", GOOD, GOOD.len() as u64);
    refused("a file with a target", &[linked, end()], is_right);
}

#[test]
fn the_same_content_twice_is_refused() {
    let twice = [file(&named(GOOD), GOOD), file(&named(GOOD), GOOD), end()];
    refused("twice", &twice, |error| matches!(error, ArchiveError::Duplicate(_)));
}

#[test]
fn a_size_other_than_declared_is_refused_and_so_are_other_bytes() {
    for size in [0, GOOD.len() as u64 - 1, GOOD.len() as u64 + 1, 8 << 30, u64::MAX / 2] {
        let parts = [entry(&named(GOOD), EntryType::Regular, "", GOOD, size), end()];
        refused("size", &parts, |error| matches!(error, ArchiveError::Size { .. }));
    }
    let other = [file(&named(GOOD), b"GOOD content"), end()];
    refused("bytes", &other, |error| matches!(error, ArchiveError::Damaged(_)));
}

#[test]
fn a_bomb_is_stopped_at_what_the_manifest_accounts_for() {
    // A gigabyte of zeros is a megabyte of archive; after the end nothing of it may be taken for padding.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(&file(&named(GOOD), GOOD)).unwrap();
    let zeros = vec![0; 1 << 20];
    (0..64).for_each(|_| encoder.write_all(&zeros).unwrap());
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    let error = verdict(&bomb).expect_err("a bomb");
    assert!(matches!(error, ArchiveError::TooMuch(_)), "{error:?}");
    // Many members of one record each.
    let many = zipped(&[vec![0; 512]]).repeat(1000);
    let error = verdict(&[zipped(&[file(&named(GOOD), GOOD)]), many].concat()).expect_err("members");
    assert!(matches!(error, ArchiveError::TooMuch(_)), "{error:?}");
}

#[test]
fn what_follows_the_end_is_refused() {
    let good = || vec![file(&named(GOOD), GOOD), end()];
    let mut hidden = good();
    hidden.push(file("../canary", b"c"));
    refused("a hidden entry", &hidden, |error| matches!(error, ArchiveError::Trailing));
    let garbage = [zipped(&good()), b"garbage after the last member".to_vec()].concat();
    assert!(matches!(verdict(&garbage), Err(ArchiveError::Unreadable(_))));
    let another = [zipped(&good()), zipped(&[file("../canary", b"c")])].concat();
    assert!(matches!(verdict(&another), Err(ArchiveError::Trailing)));
}

#[test]
fn an_archive_that_is_cut_or_lacks_something_is_refused() {
    let whole = zipped(&[file(&named(OTHER), OTHER), file(&named(GOOD), GOOD), end()]);
    for length in 0..whole.len() {
        assert!(verdict(&whole[..length]).is_err(), "cut to {length} of {}", whole.len());
    }
    let lacking = [file(&named(OTHER), OTHER), end()];
    refused("lacking", &lacking, |error| matches!(error, ArchiveError::Missing(_)));
}

#[test]
fn every_single_changed_byte_of_an_archive_is_harmless() {
    let whole = zipped(&[file(&named(GOOD), GOOD), end()]);
    for index in 0..whole.len() {
        let mut changed = whole.clone();
        changed[index] ^= 0x55;
        if let Ok(taken) = verdict(&changed) {
            assert_eq!(taken, GOOD, "byte {index}");
        }
    }
}

#[test]
fn an_undo_from_an_exchanged_archive_changes_nothing() {
    let scene = Scene::with_a_tree();
    scene.checkpoint();
    scene.write("readme.md", "agent", 0o644);
    let after = scan(&scene.scope()).unwrap();
    let archive = scene.checkpoint_dir().join("checkpoint.tar.gz");
    let original = fs::read(&archive).unwrap();
    fs::write(scene.path().join("canary"), "canary").unwrap();
    let left = picture(&scene.tree());
    let mut flipped = original.clone();
    flipped[original.len() / 2] ^= 1;
    let hostile = zipped(&[file("../canary", b"gotcha"), end()]);
    for bytes in [flipped, hostile, original[..original.len() - 1].to_vec(), Vec::new()] {
        fs::write(&archive, bytes).unwrap();
        let done = scene.undo(&after, Hand::free());
        let is_right = matches!(done, Err(UndoError::Archive { error: ArchiveError::Exchanged(_), .. }));
        assert!(is_right, "{done:?}");
        assert_eq!(picture(&scene.tree()), left);
        assert_eq!(fs::read_to_string(scene.path().join("canary")).unwrap(), "canary");
    }
    fs::write(&archive, original).unwrap();
    scene.undo(&after, Hand::free()).unwrap();
    assert_eq!(fs::read_to_string(scene.tree().join("readme.md")).unwrap(), "read me\n");
}

#[test]
fn a_reader_that_fails_is_told_as_such() {
    struct Failing;
    impl io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken disk"))
        }
    }
    let read = extract(Failing, &BTreeMap::new(), &BTreeSet::new(), |_, _| Ok(()));
    assert!(matches!(read, Err(ArchiveError::Unreadable(_))));
}
