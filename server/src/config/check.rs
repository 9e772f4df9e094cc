//! Which settings there are and what each may say: turns a document into a
//! [`Config`], noting every fault on the way. Does not read files.

use std::collections::BTreeMap;
use std::env::VarError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::document::{Field, Section, shown, spell_range};
use super::faults::Collector;
use super::workloads;
use super::{
    Admission, Config, DatabaseConfig, DatabaseName, DatabaseUrl, LossPolicy, ServerConfig, Source, Watched,
    limits,
};

const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);
const DEFAULT_HTTP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7421);
const DEFAULT_DATA: &str = "./leasehold-data";

/// How a variable of the environment is looked up.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Result<String, VarError>;

/// Checks a document. What it returns counts only if no fault was noted.
pub(super) fn config(
    document: &DeTable<'_>,
    environment: Environment<'_>,
    faults: &mut Collector<'_>,
) -> Config {
    let mut root = Section::new("the configuration", document, 0);
    let server = root.get("server").and_then(|field| field.section("[server]", faults));
    let databases = root.get("databases").and_then(|field| field.section("[databases]", faults));
    root.refuse_others(faults);

    let databases = databases.map_or_else(Vec::new, |section| all_databases(&section, environment, faults));
    let server = server.map_or_else(default_server, |section| server_section(section, faults));
    Config { server, databases }
}

fn default_server() -> ServerConfig {
    ServerConfig { listen: DEFAULT_LISTEN, http: DEFAULT_HTTP, data: PathBuf::from(DEFAULT_DATA) }
}

fn server_section(mut section: Section<'_>, faults: &mut Collector<'_>) -> ServerConfig {
    let listen_field = section.get("listen");
    let listen = listen_field.as_ref().map(|field| address(field, faults));
    let http_field = section.get("http");
    let http = http_field.as_ref().map(|field| address(field, faults));
    let data = section.get("data").and_then(|field| directory(&field, faults));
    section.refuse_others(faults);

    let listen = listen.flatten().unwrap_or(DEFAULT_LISTEN);
    let http = http.flatten().unwrap_or(DEFAULT_HTTP);
    // Port 0 asks for any free port, and then they differ.
    if listen == http && listen.port() != 0 {
        let message = format!("[server] uses {listen} for both `listen` and `http`: give each its own port");
        let fields = [&listen_field, &http_field];
        let at = faults.latest(section.at(), fields.into_iter().flatten().map(Field::at));
        faults.add(at, message);
    }
    ServerConfig { listen, http, data: data.unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)) }
}

fn address(field: &Field<'_>, faults: &mut Collector<'_>) -> Option<SocketAddr> {
    let text = field.text("\"127.0.0.1:7420\"", faults)?;
    let address = text.parse().ok();
    if address.is_none() {
        let text = shown(text);
        field.refuse(
            faults,
            format_args!("must be an IP address with a port such as \"127.0.0.1:7420\" or \"[::1]:7420\", not \"{text}\""),
        );
    }
    address
}

fn directory(field: &Field<'_>, faults: &mut Collector<'_>) -> Option<PathBuf> {
    let text = field.text("\"leasehold-data\"", faults)?;
    if text.is_empty() || text.contains('\0') {
        field.refuse(faults, "must be the path of a directory such as \"leasehold-data\"");
        return None;
    }
    Some(PathBuf::from(text))
}

fn all_databases(
    section: &Section<'_>,
    environment: Environment<'_>,
    faults: &mut Collector<'_>,
) -> Vec<DatabaseConfig> {
    let mut databases = Vec::new();
    let mut watched_at: BTreeMap<String, DatabaseName> = BTreeMap::new();
    let tables = section.tables(faults);
    if tables.len() > limits::DATABASES {
        faults.add(
            section.at(),
            format!("[databases] holds {} databases; the most is {}", tables.len(), limits::DATABASES),
        );
    }
    for (name, table) in tables.into_iter().take(limits::DATABASES) {
        let at = table.at();
        let title = table.title().to_owned();
        let Some(name) = DatabaseName::new(name) else {
            faults.add(
                at,
                format!("the name in {title} must be 1 to 64 characters out of a-z, 0-9, `_`, `-` and `.`"),
            );
            continue;
        };
        let url_at = table.peek("url");
        let Some(database) = database_section(name, table, environment, faults) else { continue };
        if let Some(watched) = database.watched() {
            let address = watched.url.address();
            if let Some(other) = watched_at.insert(address.clone(), database.name.clone()) {
                let message = format!(
                    "{title} watches the same server as [databases.{other}] ({address}): \
                     its limit is one number, so it is one database here"
                );
                faults.add(faults.latest(at, url_at), message);
            }
        }
        databases.push(database);
    }
    databases.sort_by(|a, b| a.name.cmp(&b.name));
    databases
}

/// The settings that say where the cap comes from.
struct SourceFields<'doc> {
    url: Option<Field<'doc>>,
    accounts: Option<Field<'doc>>,
    reserve: Option<Field<'doc>>,
    cap: Option<Field<'doc>>,
}

fn database_section(
    name: DatabaseName,
    mut section: Section<'_>,
    environment: Environment<'_>,
    faults: &mut Collector<'_>,
) -> Option<DatabaseConfig> {
    let fields = SourceFields {
        url: section.get("url"),
        accounts: section.get("accounts"),
        reserve: section.get("reserve"),
        cap: section.get("cap"),
    };
    let source = source(&section, &fields, environment, faults);
    let (admission, quantum) = admission(&mut section, faults);
    let on_loss_field = section.get("on_loss");
    let on_loss = on_loss_field.as_ref().and_then(|field| field.choice(&LOSS_POLICIES, faults));
    let on_loss = on_loss.unwrap_or(if fields.url.is_some() { LossPolicy::Keep } else { LossPolicy::Fence });
    let ttl = section.get("ttl").and_then(|field| field.duration(&limits::TTL, faults));
    let fence_grace =
        fence_grace(&mut section, on_loss, on_loss_field.as_ref().or(fields.url.as_ref()), faults);
    let shadow = section.get("shadow").and_then(|field| field.truth(faults)).unwrap_or(false);
    let title = format!("[databases.{name}.workloads]");
    let workloads = section.get("workloads").and_then(|field| field.section(&title, faults));
    section.refuse_others(faults);

    let default_ttl = match on_loss {
        LossPolicy::Keep => limits::DEFAULT_TTL_KEEP,
        LossPolicy::Fence => limits::DEFAULT_TTL_FENCE,
    };
    let cap = source.as_ref().and_then(Source::cap_limit).zip(fields.cap.as_ref().map(Field::at));
    let workloads = workloads::workloads(workloads, cap, faults);
    Some(DatabaseConfig {
        name,
        source: source?,
        admission,
        quantum,
        ttl: ttl.unwrap_or(default_ttl),
        on_loss,
        fence_grace,
        shadow,
        workloads,
    })
}

const LOSS_POLICIES: [(&str, LossPolicy); 2] = [("keep", LossPolicy::Keep), ("fence", LossPolicy::Fence)];
const ADMISSIONS: [(&str, Admission); 3] =
    [("fair", Admission::Fair), ("unfair", Admission::Unfair), ("strict", Admission::Strict)];

fn source(
    section: &Section<'_>,
    fields: &SourceFields<'_>,
    environment: Environment<'_>,
    faults: &mut Collector<'_>,
) -> Option<Source> {
    let SourceFields { url, accounts: accounts_field, reserve, cap } = fields;
    let given_cap = cap.as_ref().and_then(|field| field.count(&limits::CAP, faults));
    let Some(url) = url else {
        for field in [accounts_field, reserve].into_iter().flatten() {
            field.refuse_key(
                faults,
                "does nothing without `url`: nobody asks the database; take it out, or add `url`",
            );
        }
        if cap.is_none() {
            let title = section.title();
            faults.add(
                section.at(),
                format!("{title} needs `url` to watch the database, or `cap` for a fixed number"),
            );
        }
        return Some(Source::Static { cap: given_cap? });
    };
    let accounts = accounts_field.as_ref().and_then(|field| accounts(field, faults));
    let reserve = reserve.as_ref().and_then(|field| field.count(&limits::RESERVE, faults));
    Some(Source::Watched(Watched {
        url: database_url(url, environment, faults)?,
        accounts: accounts.unwrap_or_default(),
        reserve: reserve.unwrap_or(limits::DEFAULT_RESERVE),
        cap: given_cap,
    }))
}

// No message here shows a value: it may hold a password even where it is wrong.

fn database_url(
    field: &Field<'_>,
    environment: Environment<'_>,
    faults: &mut Collector<'_>,
) -> Option<DatabaseUrl> {
    let url = match field.value() {
        DeValue::String(text) => DatabaseUrl::parse(text).map_err(|why| format!("cannot be used: {why}")),
        DeValue::Table(_) => url_from(url_variable(field, faults)?, environment),
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => {
            Err("must be a string such as \"mysql://user@host:3306/\", or { env = \"NAME\" }".to_owned())
        }
    };
    url.map_err(|message| field.refuse(faults, message)).ok()
}

fn url_from(variable: &str, environment: Environment<'_>) -> Result<DatabaseUrl, String> {
    match environment(variable) {
        Ok(text) if text.is_empty() => {
            Err(format!("names the environment variable {variable}, which is empty: set it to the url"))
        }
        Ok(text) => DatabaseUrl::parse(&text)
            .map_err(|why| format!("in the environment variable {variable} cannot be used: {why}")),
        Err(VarError::NotPresent) => {
            Err(format!("names the environment variable {variable}, which is not set"))
        }
        Err(VarError::NotUnicode(_)) => {
            Err(format!("names the environment variable {variable}, which is not UTF-8"))
        }
    }
}

fn url_variable<'doc>(field: &Field<'doc>, faults: &mut Collector<'_>) -> Option<&'doc str> {
    let mut section = field.section("`url`", faults)?;
    let variable = section.get("env");
    section.refuse_others(faults);
    let Some(variable) = variable else {
        field.refuse(faults, "must name a variable: { env = \"NAME\" }");
        return None;
    };
    let name = variable.text("\"ORDERS_URL\"", faults)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // Whoever writes the url itself here must not find it in the log.
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.bytes().all(allowed)
    {
        variable.refuse(faults, "must be the name of a variable: letters, digits and `_`");
        return None;
    }
    Some(name)
}

fn accounts(field: &Field<'_>, faults: &mut Collector<'_>) -> Option<Vec<String>> {
    let names = field.texts("[\"app\"]", faults)?;
    if names.is_empty() {
        field.refuse(
            faults,
            "is empty, and then nothing would be the fleet's: name its accounts, or take it out",
        );
        return None;
    }
    if names.len() > limits::ACCOUNTS {
        field
            .refuse(faults, format_args!("names {} accounts; the most is {}", names.len(), limits::ACCOUNTS));
        return None;
    }
    if names.iter().any(|name| name.is_empty() || name.len() > limits::ACCOUNT_BYTES) {
        let most = limits::ACCOUNT_BYTES;
        field.refuse(
            faults,
            format_args!("holds a name that is empty or longer than {most} bytes: write user names"),
        );
        return None;
    }
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        field.refuse(faults, format_args!("names `{name}` twice: is another one meant?"));
        return None;
    }
    if let Some(name) = names.iter().find(|name| name.contains(['@', '\'', '"', '`', '%'])) {
        field.refuse(
            faults,
            format_args!("holds `{name}`: write user names alone, without a host or quotes, such as \"app\""),
        );
        return None;
    }
    Some(names.into_iter().map(str::to_owned).collect())
}

/// The quantum is kept while admission is not fair: an operator may change that.
fn admission(section: &mut Section<'_>, faults: &mut Collector<'_>) -> (Admission, Duration) {
    let mode = section.get("admission");
    let admission = mode.as_ref().and_then(|field| field.choice(&ADMISSIONS, faults));
    let admission = admission.unwrap_or(Admission::Fair);
    let field = section.get("quantum");
    let Some((field, quantum)) = field.and_then(|field| quantum(&field, faults).map(|read| (field, read)))
    else {
        return (admission, limits::DEFAULT_QUANTUM);
    };
    let kept = if quantum.is_zero() { limits::DEFAULT_QUANTUM } else { quantum };
    // Both say the mode. Whoever overrides one of them must not have to take the
    // other out of a file that may not be theirs to change.
    if mode.as_ref().is_some_and(|mode| mode.overrides(&field, faults)) {
        return (admission, kept);
    }
    let overrides = mode.as_ref().is_some_and(|mode| field.overrides(mode, faults));
    match (admission, quantum.is_zero()) {
        (Admission::Fair, false) => (admission, kept),
        (Admission::Fair | Admission::Strict, true) => (Admission::Strict, kept),
        (Admission::Unfair, true) if overrides => (Admission::Strict, kept),
        (Admission::Unfair, true) => {
            field.refuse(
                faults,
                "of 0 means strict order, but `admission` is \"unfair\": take one of them out",
            );
            (admission, kept)
        }
        (Admission::Strict | Admission::Unfair, false) => {
            field.refuse_key(faults, "does nothing unless `admission` is \"fair\": take one of them out");
            (admission, kept)
        }
    }
}

fn quantum(field: &Field<'_>, faults: &mut Collector<'_>) -> Option<Duration> {
    if let DeValue::Integer(integer) = field.value()
        && u32::from_str_radix(integer.as_str(), integer.radix()) == Ok(0)
    {
        return Some(Duration::ZERO);
    }
    let quantum = field.any_duration(faults)?;
    if quantum.is_zero() || limits::QUANTUM.contains(&quantum) {
        return Some(quantum);
    }
    let range = spell_range(&limits::QUANTUM);
    field.refuse(
        faults,
        format_args!("must be from {range}, or 0 for strict order at the price of throughput"),
    );
    None
}

/// `decided_by` is the field that the policy follows from.
fn fence_grace(
    section: &mut Section<'_>,
    on_loss: LossPolicy,
    decided_by: Option<&Field<'_>>,
    faults: &mut Collector<'_>,
) -> Duration {
    let Some(field) = section.get("fence_grace") else { return limits::DEFAULT_FENCE_GRACE };
    let outdone = decided_by.is_some_and(|decided_by| decided_by.overrides(&field, faults));
    if on_loss == LossPolicy::Keep && !outdone {
        field.refuse_key(
            faults,
            "does nothing with `on_loss = \"keep\"`: take it out, or set `on_loss = \"fence\"`",
        );
    }
    field.duration(&limits::FENCE_GRACE, faults).unwrap_or(limits::DEFAULT_FENCE_GRACE)
}
