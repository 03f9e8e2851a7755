//! Ports in Docker's words: `0.0.0.0:8080->80/tcp, 443/tcp`, with neighbours as ranges.

use bollard::models::PortSummary;

/// A run of ports that are published the same way: not at all, or on one address under their own numbers.
struct Run {
    address: Option<String>,
    protocol: String,
    first: u16,
    last: u16,
}

/// All ports of a container: runs first, then those published under another number.
pub(super) fn words(ports: Option<&[PortSummary]>) -> String {
    let mut ports: Vec<&PortSummary> = ports.unwrap_or_default().iter().collect();
    ports.sort_by_key(|port| (port.private_port, port.ip.clone(), port.public_port, protocol(port)));
    let mut runs: Vec<Run> = Vec::new();
    let mut renumbered = Vec::new();
    for port in ports {
        let (number, protocol) = (port.private_port, protocol(port));
        let address = port.ip.clone().filter(|address| !address.is_empty());
        if let (Some(address), Some(public)) = (&address, port.public_port)
            && public != number
        {
            renumbered.push(format!("{}->{number}/{protocol}", joined(address, &public.to_string())));
            continue;
        }
        let before = runs.iter_mut().find(|run| {
            run.address == address && run.protocol == protocol && run.last.checked_add(1) == Some(number)
        });
        match before {
            Some(run) => run.last = number,
            None => runs.push(Run { address, protocol, first: number, last: number }),
        }
    }
    runs.iter().map(Run::words).chain(renumbered).collect::<Vec<_>>().join(", ")
}

impl Run {
    fn words(&self) -> String {
        let Self { address, protocol, first, last } = self;
        let numbers = if first == last { first.to_string() } else { format!("{first}-{last}") };
        match address {
            Some(address) => format!("{}->{numbers}/{protocol}", joined(address, &numbers)),
            None => format!("{numbers}/{protocol}"),
        }
    }
}

fn protocol(port: &PortSummary) -> String {
    port.typ.map(|protocol| protocol.to_string()).unwrap_or_default()
}

/// An address and a port; the colons of an IPv6 address are kept apart from the port's.
fn joined(address: &str, port: &str) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::PortSummaryTypeEnum;

    fn port(address: Option<&str>, public: Option<u16>, private: u16) -> PortSummary {
        PortSummary {
            ip: address.map(str::to_owned),
            public_port: public,
            private_port: private,
            typ: Some(PortSummaryTypeEnum::TCP),
        }
    }

    #[test]
    fn neighbours_are_a_range_and_renumbered_ports_come_last() {
        let ports = [
            port(Some("0.0.0.0"), Some(8080), 80),
            port(Some("::"), Some(8080), 80),
            port(None, None, 7001),
            port(None, None, 7000),
            port(None, None, 9000),
            port(Some("0.0.0.0"), Some(443), 443),
        ];
        let expected =
            "0.0.0.0:443->443/tcp, 7000-7001/tcp, 9000/tcp, 0.0.0.0:8080->80/tcp, [::]:8080->80/tcp";
        assert_eq!(words(Some(&ports)), expected);
        assert_eq!(words(None), "");
    }
}
