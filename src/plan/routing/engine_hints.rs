//! Which engine an unknown name in `routing_engine` may mean: a misspelt one, or one that only
//! NVIDIA's OpenSM has.

use crate::config::options::adaptive;
use crate::config::suggest;

/// NVIDIA's engines with adaptive routing begin with this.
const ADAPTIVE_PREFIX: &str = "ar_";

/// An engine of NVIDIA's OpenSM that this program lacks.
struct VendorEngine {
    name: &'static str,
    /// The topology or algorithm of the engine.
    purpose: &'static str,
    /// The engine of this program that routes the same fabrics.
    nearest: &'static str,
}

const VENDOR_ENGINES: [VendorEngine; 6] = [
    VendorEngine { name: "ar_asymtree", purpose: "asymmetric trees", nearest: "updn" },
    VendorEngine { name: "asymtree", purpose: "asymmetric trees", nearest: "updn" },
    VendorEngine { name: "kdor-hc", purpose: "hypercubes", nearest: "dor" },
    VendorEngine { name: "kdor-ghc", purpose: "generalized hypercubes", nearest: "nue" },
    VendorEngine { name: "dfp", purpose: "Dragonfly+ fabrics", nearest: "nue" },
    VendorEngine { name: "dfp2", purpose: "Dragonfly+ fabrics", nearest: "nue" },
];

/// The end of a message about an unknown engine: the nearest of `engines`; empty if none is near.
pub(super) fn hint(name: &str, engines: &[&'static str]) -> String {
    let lower = name.to_lowercase();
    if lower == "auto" {
        return "; auto chooses an engine in NVIDIA's OpenSM only: name the engine for this \
                topology, such as updn or ftree for trees and torus-2QoS for tori"
            .to_owned();
    }
    let vendor = VENDOR_ENGINES.iter().find(|engine| engine.name == lower);
    if let Some(VendorEngine { purpose, nearest, .. }) = vendor {
        return format!(
            "; {name} is NVIDIA's engine for {purpose}, the nearest engine is {nearest}"
        );
    }
    let base = lower.strip_prefix(ADAPTIVE_PREFIX);
    if let Some(name) = adaptive::NAMES.into_iter().find(|&name| name == lower) {
        return format!("; did you mean `{name}`?");
    }
    match base.and_then(|base| engines.iter().find(|engine| engine.to_lowercase() == base)) {
        Some(nearest) => format!(
            "; {name} is NVIDIA's {nearest} with adaptive routing, which is not available: the \
             nearest engine is {nearest}"
        ),
        None => suggest::did_you_mean(name, engines.iter().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_engine_is_named() {
        let engines = ["minhop", "updn", "ftree", "dor", "torus-2QoS", "nue"];
        let cases = [
            ("AR_nue", "the nearest engine is nue"),
            ("AR_Torus", "did you mean `ar_torus`?"),
            ("kdor-hc", "the nearest engine is dor"),
            ("dfp2", "the nearest engine is nue"),
            ("auto", "name the engine for this topology"),
            ("torus-2qos", "did you mean `torus-2QoS`?"),
            ("fttree", "did you mean `ftree`?"),
        ];
        for (name, expected) in cases {
            let hint = hint(name, &engines);
            assert!(hint.contains(expected), "{name}: {hint}");
        }
        assert_eq!(hint("nonsense", &engines), "");
        for VendorEngine { nearest, .. } in &VENDOR_ENGINES {
            assert!(engines.contains(nearest), "{nearest} is an engine");
        }
    }
}
