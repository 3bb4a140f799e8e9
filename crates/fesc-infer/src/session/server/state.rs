//! What a server keeps between two starts: its master seed and its identity, readable by its owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use fesc_net::Identity;
use fesc_ring::Prg;
use zeroize::Zeroizing;

use crate::session::error::{Result, SessionError, at};
use crate::session::journal::{owners_only, private_directory};
use crate::setup::SCHEME;

/// A state directory's master seed, and whether the directory has one of another scheme.
pub struct Master {
    /// The seed.
    pub seed: Zeroizing<[u8; 32]>,
    /// It was drawn now, though there are seeds of another version of what is published: their names.
    pub replaced: Vec<String>,
}

/// The name of the master seed of this version of what is published. Before version 3 it was `master.seed`.
fn name_of_seed() -> String {
    format!("master-v{SCHEME}.seed")
}

/// The master seed of a state directory; drawn on the first start.
///
/// The same seed and the same weights give the same public part, so that clients keep their downloads. A seed
/// of another [`SCHEME`] is never used: what another build published from it may have related secrets.
pub fn master(directory: &Path, prg: &mut Prg) -> Result<Master> {
    private_directory(directory)?;
    let path = directory.join(name_of_seed());
    match File::open(&path) {
        Ok(file) => {
            owners_only(&file, &path)?;
            // Room for all of it: a vector that grows leaves copies behind.
            let mut read = Zeroizing::new(Vec::with_capacity(64));
            file.take(33).read_to_end(&mut read).map_err(at(&path))?;
            let problem = "no master seed: it must have 32 bytes".to_string();
            let wrong = || SessionError::File { path: path.display().to_string(), problem };
            let mut seed = Zeroizing::new([0; 32]);
            seed.copy_from_slice(Some(&read[..]).filter(|r| r.len() == 32).ok_or_else(wrong)?);
            Ok(Master { seed, replaced: Vec::new() })
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let mut seed = Zeroizing::new([0; 32]);
            prg.fill_bytes(&mut *seed);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&path).map_err(at(&path))?;
            file.write_all(&*seed).and_then(|()| file.sync_all()).map_err(at(&path))?;
            Ok(Master { seed, replaced: other_seeds(directory)? })
        }
        Err(e) => Err(at(&path)(e)),
    }
}

/// Master seeds of other versions of what is published.
fn other_seeds(directory: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(at(directory))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|n| n.starts_with("master") && n.ends_with(".seed") && *n != name_of_seed()).collect();
    names.sort();
    Ok(names)
}

/// The identity in a state directory; made on the first start.
pub fn identity(directory: &Path) -> Result<Identity> {
    let (key, certificate) = (directory.join("server.key"), directory.join("server.crt"));
    if key.exists() || certificate.exists() {
        return Ok(Identity::load(&key, &certificate)?);
    }
    let identity = Identity::generate()?;
    identity.save(&key, &certificate)?;
    Ok(identity)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_master_seed_is_drawn_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let first = master(&state, &mut Prg::from_seed([1; 16])).unwrap();
        assert!(first.replaced.is_empty());
        assert_eq!(master(&state, &mut Prg::from_seed([2; 16])).unwrap().seed, first.seed);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let path = state.join(name_of_seed());
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let error = master(&state, &mut Prg::from_seed([2; 16])).err().unwrap();
            assert!(matches!(error, SessionError::Exposed { mode: 0o644, .. }));
        }
        fs::remove_file(state.join(name_of_seed())).unwrap();
        fs::write(state.join(name_of_seed()), [0; 31]).unwrap();
        assert!(master(&state, &mut Prg::from_seed([2; 16])).is_err());
        assert_eq!(identity(&state).unwrap().fingerprint(), identity(&state).unwrap().fingerprint());
    }

    /// An old seed is neither used nor touched.
    #[test]
    fn a_state_directory_of_another_scheme_gets_a_new_root() {
        let state = tempfile::tempdir().unwrap();
        let old = state.path().join("master.seed");
        fs::write(&old, [9; 32]).unwrap();
        let made = master(state.path(), &mut Prg::from_seed([1; 16])).unwrap();
        assert!(made.replaced == ["master.seed"] && *made.seed != [9; 32]);
        assert_eq!(fs::read(&old).unwrap(), [9; 32]);
        let again = master(state.path(), &mut Prg::from_seed([2; 16])).unwrap();
        assert!(again.replaced.is_empty() && again.seed == made.seed);
    }
}
