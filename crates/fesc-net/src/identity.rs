//! Who a server or a client is: a self-signed certificate, made on the spot, known by its SHA-256
//! fingerprint.
//!
//! The fingerprint is the whole identity. Names and dates in the certificate mean nothing and are not looked
//! at. The key comes from the operating system's generator, inside the TLS library; it is no part of any
//! protocol.
//!
//! A server always has one, which its clients pin. A client may have one, by which a server knows it again.
//! Anybody can make any number of them: a fingerprint is good for a list of who may, not for a list of who
//! may not.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::str::FromStr;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{NetError, hex};

/// No identity file is longer.
const FILE_LIMIT: u64 = 64 * 1024;

/// No certificate in DER is longer: a server takes no longer one from a client. Ours have about 400 bytes.
pub(crate) const CERTIFICATE_LIMIT: usize = 4096;

/// SHA-256 of a certificate in DER. Written as 64 hex digits.
#[derive(Clone, Copy, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate.
    pub fn of(certificate: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(certificate).into())
    }
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Fingerprint) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::text(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = NetError;

    /// 64 hex digits of either case, with or without colons between the bytes.
    fn from_str(text: &str) -> Result<Fingerprint, NetError> {
        let refuse = || NetError::Parse {
            what: "fingerprint",
            text: text.into(),
            problem: "it must be 64 hex digits (SHA-256)",
        };
        let digits: Vec<u8> = text.trim().bytes().filter(|b| *b != b':').collect();
        hex::bytes(&digits).map(Fingerprint).ok_or_else(refuse)
    }
}

/// The certificate and private key of a server or of a client. It holds a secret: no `Clone`, and `Debug`
/// shows the fingerprint only.
pub struct Identity {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    /// PKCS #8.
    key: Zeroizing<Vec<u8>>,
    key_pem: Zeroizing<String>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

impl Identity {
    /// A new key (ECDSA P-256) and its self-signed certificate.
    pub fn generate() -> Result<Identity, NetError> {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(vec!["fesc".to_string()])?;
        Ok(Identity {
            certificate: cert.der().clone(),
            certificate_pem: cert.pem(),
            key: Zeroizing::new(signing_key.serialize_der()),
            key_pem: Zeroizing::new(signing_key.serialize_pem()),
        })
    }

    /// What clients pin of a server, and what a server lists of its clients.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Writes the private key (mode 0600) and the certificate to two new files. Existing files are never
    /// touched.
    pub fn save(&self, key_path: &Path, certificate_path: &Path) -> Result<(), NetError> {
        write_new(key_path, self.key_pem.as_bytes(), 0o600)?;
        write_new(certificate_path, self.certificate_pem.as_bytes(), 0o644).inspect_err(|_| {
            // We made this key file a moment ago and nobody has seen its certificate: leave no half identity
            // behind.
            let _ = std::fs::remove_file(key_path);
        })
    }

    /// Reads both files back. Refuses a key file that others may read, and a key that is not the
    /// certificate's.
    pub fn load(key_path: &Path, certificate_path: &Path) -> Result<Identity, NetError> {
        let key_pem = Zeroizing::new(read_text(key_path, true)?);
        let certificate_pem = read_text(certificate_path, false)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(key_pem.as_bytes())
            .map_err(|e| refuse(key_path, format!("no PKCS #8 private key in PEM form: {e}")))?;
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|e| refuse(certificate_path, format!("no certificate in PEM form: {e}")))?;
        if certificate.len() > CERTIFICATE_LIMIT {
            let problem = format!("the certificate has {} bytes, at most {CERTIFICATE_LIMIT}", certificate.len());
            return Err(refuse(certificate_path, format!("{problem} are accepted; make a new identity")));
        }
        let key = Zeroizing::new(key.secret_pkcs8_der().to_vec());
        let identity = Identity { certificate, certificate_pem, key, key_pem };
        crate::tls::server_config(&identity).map_err(|e| {
            refuse(key_path, format!("the key does not fit the certificate {}: {e}", certificate_path.display()))
        })?;
        Ok(identity)
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.to_vec()).into()
    }
}

fn refuse(path: &Path, problem: impl Into<String>) -> NetError {
    NetError::IdentityFile { path: path.into(), problem: problem.into() }
}

fn write_new(path: &Path, content: &[u8], mode: u32) -> Result<(), NetError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let mut file = options.open(path).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => refuse(path, "it exists and is never overwritten; choose another name"),
        _ => refuse(path, format!("cannot create: {e}")),
    })?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|e| {
        // We made it a moment ago; half a file would only stand in the way of the next attempt.
        let _ = std::fs::remove_file(path);
        refuse(path, format!("cannot write: {e}"))
    })
}

fn read_text(path: &Path, secret: bool) -> Result<String, NetError> {
    // Opening a pipe would wait for its writer, so look first.
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return Err(refuse(path, "not a regular file"));
    }
    let file = File::open(path).map_err(|e| refuse(path, format!("cannot open: {e}")))?;
    // Of the open file, not of the path: the path may change in between.
    let meta = file.metadata().map_err(|e| refuse(path, format!("cannot inspect: {e}")))?;
    if !meta.is_file() || meta.len() > FILE_LIMIT {
        return Err(refuse(path, format!("not a regular file of at most {FILE_LIMIT} bytes")));
    }
    #[cfg(unix)]
    if secret {
        let mode = std::os::unix::fs::MetadataExt::mode(&meta) & 0o7777;
        if mode & 0o077 != 0 {
            return Err(refuse(path, format!("mode {mode:04o} lets others use the private key; run: chmod 600")));
        }
    }
    #[cfg(not(unix))]
    let _ = secret;
    // Enough room at once: a growing string would leave copies of a secret behind.
    let mut text = String::with_capacity(FILE_LIMIT as usize);
    file.take(FILE_LIMIT).read_to_string(&mut text).map_err(|e| refuse(path, format!("cannot read: {e}")))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn fingerprints_round_trip() {
        let f = Fingerprint::of(b"abc");
        // SHA-256("abc"), FIPS 180-2 appendix B.1.
        assert_eq!(f.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(f.to_string().parse::<Fingerprint>().unwrap(), f);
        let upper = f.to_string().to_uppercase();
        let colons: Vec<_> = upper.as_bytes().chunks(2).map(|c| std::str::from_utf8(c).unwrap()).collect();
        assert_eq!(colons.join(":").parse::<Fingerprint>().unwrap(), f);
        assert_ne!(f, Fingerprint::of(b"abd"));
        for bad in ["", "ba78", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn saved_identity_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let (key, cert) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
        let made = Identity::generate().unwrap();
        made.save(&key, &cert).unwrap();
        let loaded = Identity::load(&key, &cert).unwrap();
        assert_eq!(loaded.fingerprint(), made.fingerprint());
        assert_eq!(*loaded.key, *made.key);
        assert!(!std::fs::read_to_string(&cert).unwrap().contains("PRIVATE"));
        assert_ne!(Identity::generate().unwrap().fingerprint(), made.fingerprint());
    }

    #[test]
    fn a_printed_identity_is_its_fingerprint_and_no_more() {
        let made = Identity::generate().unwrap();
        assert_eq!(format!("{made:?}"), format!("Identity({})", made.fingerprint()));
        assert_eq!(format!("{made:#?}"), format!("{made:?}"));
    }

    #[test]
    fn a_certificate_that_no_server_takes_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (key, cert) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
        for (names, fits) in [(360, true), (400, false)] {
            let names: Vec<_> = (0..names).map(|i| format!("fesc-{i:03}")).collect();
            let made = rcgen::generate_simple_self_signed(names).unwrap();
            write_new(&key, made.signing_key.serialize_pem().as_bytes(), 0o600).unwrap();
            write_new(&cert, made.cert.pem().as_bytes(), 0o644).unwrap();
            match Identity::load(&key, &cert) {
                Ok(_) => assert!(fits),
                Err(e) => assert!(!fits && e.to_string().contains("at most 4096 are"), "{e}"),
            }
            std::fs::remove_file(&key).and_then(|()| std::fs::remove_file(&cert)).unwrap();
        }
    }

    #[test]
    fn nothing_is_overwritten_and_no_half_identity_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (key, cert) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
        let made = Identity::generate().unwrap();
        std::fs::write(&cert, "mine").unwrap();
        assert!(made.save(&key, &cert).unwrap_err().to_string().contains("cert.pem"));
        assert!(!key.exists());
        assert_eq!(std::fs::read(&cert).unwrap(), b"mine");
    }

    #[cfg(unix)]
    #[test]
    fn the_key_file_is_private_or_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (key, cert) = (dir.path().join("key.pem"), dir.path().join("cert.pem"));
        Identity::generate().unwrap().save(&key, &cert).unwrap();
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
        for mode in [0o640, 0o604, 0o660, 0o610] {
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = Identity::load(&key, &cert).err().unwrap().to_string();
            assert!(error.contains("chmod 600"), "{mode:o}: {error}");
        }
    }

    #[test]
    fn foreign_or_broken_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |n: &str| dir.path().join(n);
        Identity::generate().unwrap().save(&path("k1"), &path("c1")).unwrap();
        Identity::generate().unwrap().save(&path("k2"), &path("c2")).unwrap();
        assert!(Identity::load(&path("k1"), &path("c2")).err().unwrap().to_string().contains("does not fit"));
        write_new(&path("empty"), b"", 0o600).unwrap();
        write_new(&path("binary"), &[0xff; 100], 0o600).unwrap();
        for bad in ["empty", "binary", "missing", "c1"] {
            assert!(Identity::load(&path(bad), &path("c1")).is_err(), "key {bad}");
        }
        assert!(Identity::load(&path("k1"), &path("empty")).is_err());
        assert!(Identity::load(dir.path(), &path("c1")).is_err());
        #[cfg(unix)]
        {
            // A pipe that nobody writes to: opening it would wait for ever.
            let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
            assert!(made.success());
            assert!(Identity::load(&path("pipe"), &path("c1")).err().unwrap().to_string().contains("regular"));
        }
    }
}
