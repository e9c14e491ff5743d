//! The document of a new user, in MongoDB's shape.

use quarry_bson::{Document, RawDocument, Value};

use crate::access::name::Name;
use crate::access::restrictions::Restrictions;
use crate::access::roles;

const UUID_SUBTYPE: u8 = 4;

/// The document of a user with these credentials and roles, and an id that no other user had or will have.
pub fn document(
    name: &Name,
    credentials: &Document,
    custom_data: Option<RawDocument<'_>>,
    roles: &[Name],
    restrictions: &Restrictions,
) -> Document {
    let mut id = [0; 16];
    getrandom::fill(&mut id).expect("the kernel gives random bytes");
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let mut document = Document::new();
    document.append("_id", name.id());
    document.append("userId", Value::binary(UUID_SUBTYPE, &id));
    document.append("user", name.name.as_str());
    document.append("db", name.database.as_str());
    document.append("credentials", credentials.clone());
    if let Some(custom_data) = custom_data {
        document.append("customData", custom_data);
    }
    document.append("roles", roles::array(roles));
    if !restrictions.is_empty() {
        document.append("authenticationRestrictions", restrictions.array());
    }
    document
}
