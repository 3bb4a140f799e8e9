//! What is made once per model: deterministic in master seed and weights, fresh for every change, safe to
//! read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::*;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use fesc_infer::kernels::private_plan;
use fesc_infer::session::SessionError;
use fesc_infer::session::public::{Hosted, Known};
use fesc_infer::{BlockId, ClientSetup, Embedding, InferError, Matrix, Result, SCHEME, ServerSetup};
use fesc_model::outline::Outline;
use fesc_model::twin::{Calibration, Plan, Twin};
use fesc_model::{Config, Model, Shape, Weights};
use fesc_ring::Prg;
use fesc_rlwe::Params;
use fesc_rlwe::linear::Block;
use sha2::{Digest, Sha256};

fn small() -> Shape {
    Shape { d_model: 8, layers: 1, heads: 2, head_dim: 4, state: 4, groups: 1, norm_groups: 1, ..shape() }
}

fn written(setup: &ClientSetup) -> Vec<u8> {
    let mut bytes = Vec::new();
    setup.write(&mut bytes).unwrap();
    bytes
}

/// A setup in a file, behind `before` other bytes.
fn opened(bytes: &[u8], before: usize, outline: &Outline) -> Result<ClientSetup> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![1; before]).unwrap();
    file.write_all(bytes).unwrap();
    ClientSetup::open(file, before as u64, outline)
}

#[test]
fn the_same_master_and_weights_give_the_same_setup() {
    let make = |seed, master| ServerSetup::new(twin(small(), 40, seed), [master; 32]).unwrap();
    let (first, again) = (make(1, 7), make(1, 7));
    assert_eq!(first.client_setup().digest(), again.client_setup().digest());
    let first = written(first.client_setup());
    assert_eq!(first, written(again.client_setup()));
    // Another master, or other weights: seeds and hints have nothing in common. Equal elements would be
    // chance: 2^-48 each.
    for other in [make(1, 8), make(2, 7)] {
        let other = written(other.client_setup());
        assert_eq!(first.len(), other.len());
        let (a, b) = (&first[73..], &other[73..]);
        let equal = a.chunks_exact(6).zip(b.chunks_exact(6)).filter(|(a, b)| a == b).count();
        assert_eq!(equal, 0);
    }
}

/// What one master seed and one small model publish, to the byte. A server publishes at every start, and
/// operators keep their state directories over new builds: bytes that change silently put related secrets on
/// show. Two layers, two groups, more rows of the table than are made at once, and both kinds of table.
#[test]
fn known_answer_of_a_models_public_part() {
    // The version, and digests of the outline, the header, each layer's hints, the table, the public table.
    const KNOWN: (u32, [&str; 6]) = (
        3,
        [
            "870de274fbe90ece20f83e6abf486eae40f6789cf515165bab194a9e42159bec",
            "3e9aa4b7033454a7ae14fc1707a656f85b39425b00dc1352436f759370df0c17",
            "14b8b1a5d11bc083e9ec42d949e1544eb4351f2f5e30d16b27535854ebb286cf",
            "f201450f942dfc252a1c7f6c53997fa2407074ffd8e55fcbe94be4cc1823fa6a",
            "e00b2eeb02bbe1228d780d50a60eed1c813d0f0abb0d401baa1cabd69bbfd235",
            "50c672a9f0425f057815692945b1e75689075f02e28b0093e91afbecbebb84fa",
        ],
    );
    let shape = Shape { layers: 2, groups: 2, vocab: 1030, ..small() };
    let twin = twin(shape, 40, 1);
    let server = ServerSetup::new(&twin, [7; 32]).unwrap();
    let public = ServerSetup::with_embedding(&twin, [7; 32], Embedding::Public).unwrap();
    let (setup, public) = (written(server.client_setup()), written(public.client_setup()));
    let (params, outline) = (Params::linear().unwrap(), server.outline().unwrap().clone());
    let hints: usize =
        Matrix::ALL.iter().map(|m| m.shape(outline.shape()).unwrap().outputs() * params.degree() * 6).sum();
    let (header, rest) = setup.split_at(73);
    let (first, rest) = rest.split_at(hints);
    let (second, table) = rest.split_at(hints);
    let mut whole = Vec::new();
    Hosted::new(server, Some("words".into())).unwrap().write(&mut whole).unwrap();
    let got = [&outline.digest().unwrap()[..], header, first, second, table, &public[73 + 2 * hints..]];
    let hex = |bytes: &[u8]| Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let got = got.map(hex);
    assert_eq!(
        (SCHEME, got.each_ref().map(String::as_str)),
        KNOWN,
        "what one model and one master seed publish has changed: raise SCHEME in fesc-infer/src/setup/seeds.rs and add a \
         line to its table, then write the new version and digests here. Never write new digests under an old version."
    );
    // The file around them: its version is its first eight bytes.
    const WHOLE: (&str, &str) = ("FESCpub2", "7e3ebddabbabd1525d718df3a77698c028d6cde9eb2324352789605560e8cd92");
    assert_eq!(
        (std::str::from_utf8(&whole[..8]).unwrap(), hex(&whole).as_str()),
        WHOLE,
        "the file of a public part has changed: raise its version in fesc-infer/src/session/container.rs"
    );
}

/// One calibration, so that the outline, which is hashed too, stays; one weight, the first or the last of
/// each kind. The thresholds of the clamp follow from the rates.
#[test]
fn every_single_weight_changes_the_seed_of_all_hints() {
    type Kind = (&'static str, f32, fn(&mut Weights) -> &mut Vec<f32>);
    let kinds: [Kind; 10] = [
        ("table", 0.01, |w| &mut w.embedding),
        ("in_proj", 0.01, |w| &mut w.layers[1].in_proj),
        ("taps", 0.01, |w| &mut w.layers[1].conv),
        ("conv_bias", 0.01, |w| &mut w.layers[1].conv_bias),
        ("step_bias", 0.01, |w| &mut w.layers[1].dt_bias),
        ("rates", 1e-5, |w| &mut w.layers[1].a_log),
        ("skip", 0.01, |w| &mut w.layers[1].d),
        ("out_proj", 0.01, |w| &mut w.layers[1].out_proj),
        ("head's weights", 0.01, |w| &mut w.head.as_mut().unwrap().weight),
        ("head's bias", 0.01, |w| &mut w.head.as_mut().unwrap().bias),
    ];
    let (model, calibration) = calibrated(Shape { layers: 2, ..small() }, 40, 1);
    let published = |weights: Weights| {
        let model = Model::new(model.config().clone(), weights).unwrap();
        let twin = Twin::new(&model, &calibration, Plan::FAST).unwrap();
        let thresholds = twin.secrets(1).unwrap().thresholds.to_vec();
        let bytes = written(ServerSetup::new(twin, [7; 32]).unwrap().client_setup());
        // Magic, kind of table, outline; the seed.
        (thresholds, bytes[..41].to_vec(), bytes[41..73].to_vec())
    };
    let (thresholds, front, seed) = published(model.weights().clone());
    let mut seeds = vec![seed];
    for (name, step, values) in kinds {
        for last in [false, true] {
            let mut weights = model.weights().clone();
            let values = values(&mut weights);
            let at = if last { values.len() - 1 } else { 0 };
            values[at] += step;
            let (other_thresholds, other_front, seed) = published(weights);
            assert!(other_front == front && other_thresholds == thresholds, "{name}: something else changed");
            assert!(!seeds.contains(&seed), "{name}, value {at}");
            seeds.push(seed);
        }
    }
}

/// Hashed at the opening, and again when it is read.
#[test]
fn a_hint_that_changes_after_the_opening_is_named() {
    let model = twin(Shape { layers: 2, ..small() }, 40, 1);
    let server = ServerSetup::new(&model, [7; 32]).unwrap();
    let outline = server.outline().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before").unwrap();
    server.client_setup().write(&mut file).unwrap();
    let setup = ClientSetup::open(file.try_clone().unwrap(), 6, outline).unwrap();
    let params = Params::linear().unwrap();
    let sizes = Matrix::ALL.map(|m| m.shape(outline.shape()).unwrap().outputs() * params.degree() * 6);
    let read = |layer, matrix: Matrix| {
        let block = Block::cut(&params, &matrix.shape(outline.shape()).unwrap(), 5).unwrap()[0];
        let pad = BlockId { layer, matrix, segment: 0, index: 0, block };
        pad.prepare(&setup, &mut Prg::from_seed([1; 16])).map(drop)
    };
    let places = || (0..2).flat_map(|layer| Matrix::ALL.map(|matrix| (layer, matrix)));
    let mut start = 6 + 73;
    for damaged in places() {
        let bytes = sizes[usize::from(damaged.1 == Matrix::OutProj)];
        for at in [start, start + bytes - 1] {
            let mut flip = || {
                let mut byte = [0];
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.read_exact(&mut byte).unwrap();
                file.seek(SeekFrom::Start(at as u64)).unwrap();
                file.write_all(&[byte[0] ^ 1]).unwrap();
            };
            flip();
            for (layer, matrix) in places() {
                match read(layer, matrix) {
                    Ok(()) => assert_ne!((layer, matrix), damaged),
                    Err(InferError::Changed { layer: l, at, bytes: b, .. }) => {
                        assert_eq!(
                            (layer, matrix, l, at, b),
                            (damaged.0, damaged.1, layer, start as u64, bytes as u64)
                        );
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            flip();
            read(damaged.0, damaged.1).unwrap();
        }
        start += bytes;
    }
}

/// Also behind other bytes, and before others. The same in every directory, and two setups in one directory
/// leave no trace there.
#[test]
fn what_is_written_is_read() {
    let directory = tempfile::tempdir().unwrap();
    for embedding in [Embedding::Encrypted, Embedding::Public] {
        let model = twin(Shape { layers: 2, ..small() }, 40, 1);
        let server = ServerSetup::with_embedding(&model, [7; 32], embedding).unwrap();
        let (setup, outline) = (server.client_setup(), server.outline().unwrap());
        let bytes = written(setup);
        assert_eq!(bytes.len() as u64, ClientSetup::bytes(outline, embedding).unwrap());
        let read = opened(&[&bytes[..], b"end"].concat(), 77, outline).unwrap();
        assert_eq!((read.digest(), read.embedding()), (setup.digest(), embedding));
        assert_eq!(read.outline_digest(), outline.digest().unwrap());
        assert!(written(&read) == bytes);
        let in_directory = || ServerSetup::in_directory(&model, [7; 32], embedding, directory.path()).unwrap();
        let (one, two) = (in_directory(), in_directory());
        assert!(written(one.client_setup()) == bytes);
        drop(one);
        assert!(written(two.client_setup()) == bytes);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn cut_foreign_and_damaged_setups_are_refused_or_have_another_digest() {
    let server = ServerSetup::new(twin(small(), 40, 1), [7; 32]).unwrap();
    let other = ServerSetup::new(twin(Shape { vocab: 41, ..small() }, 40, 1), [7; 32]).unwrap();
    let outline = server.outline().unwrap();
    let bytes = written(server.client_setup());
    for end in [0, 7, 8, 40, 72, 73, 1000, bytes.len() - 1] {
        assert!(opened(&bytes[..end], 3, outline).is_err(), "{end}");
    }
    let (all, cut) = (bytes.len() as u64, opened(&bytes[..1000], 3, outline).err().unwrap());
    assert!(matches!(cut, InferError::Short { expected, got: 1000, .. } if expected == all), "{cut}");
    assert!(opened(&bytes, 0, other.outline().unwrap()).is_err(), "another model");
    for at in [0, 8, 9] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        assert!(opened(&bytes, 0, outline).is_err(), "{at}");
    }
    for at in [41, 73, bytes.len() - 1] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        let read = opened(&bytes, 0, outline).unwrap();
        assert_ne!(read.digest(), server.client_setup().digest(), "{at}");
    }
}

/// The whole public part: as it was hosted, and cut, longer or changed files are refused.
#[test]
fn a_public_part_stays_in_its_file() {
    let hosted = Hosted::new(ServerSetup::new(twin(small(), 40, 1), [7; 32]).unwrap(), Some("words".into())).unwrap();
    let mut bytes = Vec::new();
    hosted.write(&mut bytes).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("public");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Known::open(File::open(&path).unwrap(), hosted.id, "no")
    };
    assert_eq!(bytes.len() as u64, hosted.bytes);
    let file = open(&bytes).unwrap();
    assert_eq!(
        (file.id, file.outline_digest, file.tokenizer_json()),
        (hosted.id, hosted.outline_digest, Some("words"))
    );
    assert!(written(&file.setup) == written(hosted.setup.client_setup()));
    assert!(matches!(open(&[&bytes[..], b"x"].concat()), Err(SessionError::Malformed { .. })));
    for end in [0, 15, 16, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(matches!(open(&bytes[..end]), Err(SessionError::Malformed { .. })), "{end}");
    }
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert!(matches!(open(&bytes), Err(SessionError::WrongModel { .. })));
}

/// Larger weights than the masks of a projection under encryption are for: refused before anything of the
/// model is published, and not when a client's session meets them.
#[test]
fn weights_above_the_bound_of_a_projection_are_refused_when_the_model_is_published() {
    let config = Config::new(Shape { layers: 2, ..shape() }).unwrap();
    let publish = |plan: &str, change: &dyn Fn(&mut Weights)| {
        let mut weights = Weights::random(&config, Some(5), &mut Prg::from_seed([3; 16]));
        change(&mut weights);
        let model = Model::new(config.clone(), weights).unwrap();
        let calibration = Calibration::collect(&model, &[document(60, 101)]).unwrap();
        let twin = Twin::new(&model, &calibration, private_plan(plan).unwrap()).unwrap();
        ServerSetup::new(twin, [7; 32]).map(|_| ()).map_err(|e| e.to_string())
    };
    // One column of z, which may have 8 sqrt(2 rows) times 8, and all of the output.
    let input = |w: &mut Weights| w.layers[0].in_proj[..shape().d_model].fill(20.0);
    let output = |w: &mut Weights| w.layers[1].out_proj.iter_mut().for_each(|v| *v = 4f32.copysign(*v));
    for (change, place) in
        [(&input as &dyn Fn(&mut Weights), "input projection of layer 0"), (&output, "output projection of layer 1")]
    {
        let said = publish("fast,projection=ckks", change).unwrap_err();
        for part in [place, "a result can be", "the most that a mask", "take projection=rlwe", "smaller weights"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // Control: the plan that has no such bound.
        publish("fast", change).unwrap();
    }
    publish("fast,projection=ckks", &|_| ()).unwrap();
}
