//! The clients of the stores that are known, made of an address and the environment.
//!
//! Where credentials come from is the library's: the environment, or the machine's role. What is added here are bounds of time and of tries, and the
//! likely cause of errors, as far as the environment tells it.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, ObjectStore, RetryConfig};

use crate::backup::address::{StoreAddress, StoreKind};

/// Tries of a request after the first one, as far as `RETRY_TIME_MAX` allows: a store that refuses connections is given up after half a minute.
const RETRIES_MAX: usize = 8;
const RETRY_TIME_MAX: Duration = Duration::from_secs(120);
/// Each try may take so long, unless the environment says otherwise: a chunk of four MiB passes a line of half a megabit.
const TRY_TIME_MAX: &str = "90 seconds";
const CONNECT_TIME_MAX: &str = "10 seconds";

/// The variables of the environment that stores of one kind have.
struct Environment {
    /// The beginning of those that all kinds have.
    prefix: &'static str,
    /// The variables that say that credentials are there, whatever they are worth.
    credentials: &'static [&'static str],
    /// The likely cause of an error where none of them is set.
    no_credentials: &'static str,
    /// The likely cause of an error of an endpoint without TLS that nobody has allowed.
    no_tls: &'static str,
}

const S3: Environment = Environment {
    prefix: "AWS",
    credentials: &[
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ],
    no_credentials: " (AWS_ACCESS_KEY_ID is not set, and this machine's role was asked)",
    no_tls: " (an endpoint without TLS needs AWS_ALLOW_HTTP=true)",
};
const GOOGLE: Environment = Environment {
    prefix: "GOOGLE",
    credentials: &[
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
    ],
    no_credentials: " (GOOGLE_SERVICE_ACCOUNT is not set, and this machine's account was asked)",
    no_tls: " (an endpoint without TLS needs GOOGLE_ALLOW_HTTP=true)",
};
const AZURE: Environment = Environment {
    prefix: "AZURE",
    credentials: &[
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
    ],
    no_credentials: " (AZURE_STORAGE_ACCOUNT_KEY is not set, and this machine's identity was asked)",
    no_tls: " (an endpoint without TLS needs AZURE_ALLOW_HTTP=true)",
};

/// A store, and the likely cause of its errors where one can be named beforehand.
type Client = (Arc<dyn ObjectStore>, &'static str);

/// The client of an address's store.
pub fn client_of(address: &StoreAddress) -> object_store::Result<Client> {
    match address.kind {
        StoreKind::S3 => s3(address),
        StoreKind::Google => google(address),
        StoreKind::Azure => azure(address),
    }
}

fn s3(address: &StoreAddress) -> object_store::Result<Client> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(&address.bucket);
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    let is_plain = is_plain(endpoint);
    for (key, value) in S3.settings(is_plain) {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    let store = builder.with_retry(retries()).build()?;
    Ok((Arc::new(store), S3.hint(is_plain)))
}

fn google(address: &StoreAddress) -> object_store::Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&address.bucket);
    let endpoint = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let is_plain = is_plain(endpoint);
    for (key, value) in GOOGLE.settings(is_plain) {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    let store = builder.with_retry(retries()).build()?;
    Ok((Arc::new(store), GOOGLE.hint(is_plain)))
}

fn azure(address: &StoreAddress) -> object_store::Result<Client> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(&address.bucket);
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    let is_plain = is_plain(endpoint);
    for (key, value) in AZURE.settings(is_plain) {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    let store = builder.with_retry(retries()).build()?;
    Ok((Arc::new(store), AZURE.hint(is_plain)))
}

impl Environment {
    fn is_set(&self, name: &str) -> bool {
        is_set(&format!("{}_{name}", self.prefix))
    }

    /// The settings of requests that the environment does not give.
    fn settings(&self, is_plain: bool) -> Vec<(ClientConfigKey, &'static str)> {
        let bounds = [
            ("TIMEOUT", ClientConfigKey::Timeout, TRY_TIME_MAX),
            (
                "CONNECT_TIMEOUT",
                ClientConfigKey::ConnectTimeout,
                CONNECT_TIME_MAX,
            ),
        ];
        let bounds = (bounds.into_iter()).filter(|(name, _, _)| !self.is_set(name));
        let bounds = bounds.map(|(_, key, value)| (key, value));
        // A machine without certificates of authorities may speak to a store without TLS.
        let no_authorities = is_plain.then_some((ClientConfigKey::NoSystemCertificates, "true"));
        bounds.chain(no_authorities).collect()
    }

    fn hint(&self, is_plain: bool) -> &'static str {
        if is_plain && !self.is_set("ALLOW_HTTP") {
            self.no_tls
        } else if !self.credentials.iter().any(|variable| is_set(variable)) {
            self.no_credentials
        } else {
            ""
        }
    }
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

fn is_plain(endpoint: Option<String>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES_MAX,
        retry_timeout: RETRY_TIME_MAX,
    }
}
