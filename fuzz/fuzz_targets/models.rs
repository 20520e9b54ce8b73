//! Parses model files of services. A wrong file is refused, and an accepted model is unchanged
//! after it is written and read again.
#![no_main]

use firstbyte_advise::model::{ModelCatalogue, ServiceModel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = ModelCatalogue::current().add("fuzzed.toml", text);
    if let Ok(model) = ServiceModel::parse(text) {
        let written = model.to_toml();
        let read = ServiceModel::parse(&written).expect("what is written can be read");
        assert_eq!(read.to_toml(), written);
    }
});
