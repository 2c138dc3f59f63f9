#!/bin/sh
# Installs torus-sm over Debian's opensm under systemd, on a simulated host with two ports; upgrades and
# removes it. Each check prints a line; the first one that fails ends the script.
set -eu

first=0x0000000010000001
second=0x0000000010000002

fail() {
	echo "FAILED: $*"
	journalctl --sync || true
	journalctl --no-pager --quiet --lines 60 || true
	exit 1
}

# until SECONDS COMMAND...: waits until a command succeeds.
until_ok() {
	limit=$(($1 * 20))
	shift
	while ! "$@" >/dev/null 2>&1; do
		limit=$((limit - 1))
		[ $limit -gt 0 ] || fail "$*"
		sleep 0.05
	done
	echo "ok: $*"
}

# is UNIT PROPERTY VALUE: waits for a property of a unit.
is() {
	until_ok 20 sh -c "systemctl show --property $2 $1 | grep -qx $2=$3"
}

log_has() {
	grep -q "$2" "/var/log/opensm.$1.log"
}

package_is() {
	state=$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)
	[ "$state" = "$2" ] || fail "$1 is $state, not $2"
	echo "ok: $1 is $2"
}

package_is opensm installed
[ "$(systemctl is-enabled opensm.service)" = enabled ] || fail "opensm is not enabled"
# A file of containers that lets no package start a service.
rm -f /usr/sbin/policy-rc.d
# The index of manual pages takes time.
ln -sf /bin/true /usr/bin/mandb

# The units run on the simulated fabric of this program: all else is as on a machine with InfiniBand.
for unit in torus-sm torus-sm@ torus-sm-ports; do
	mkdir -p "/etc/systemd/system/$unit.service.d"
	cat >"/etc/systemd/system/$unit.service.d/simulated.conf" <<-UNIT
		[Service]
		Environment=LD_PRELOAD=/usr/lib/torus-sm/libtorus_sm_preload.so
		Environment=TORUS_SM_SIM_SOCKET=/run/torus-sm/sim.sock
	UNIT
	[ $unit = torus-sm-ports ] || echo RestartSec=100ms >>"/etc/systemd/system/$unit.service.d/simulated.conf"
done
systemd-run --quiet --unit simulator /check/torus-sm sim --file /check/fabric.net --no-sm
until_ok 20 test -S /run/torus-sm/sim.sock

# Install over OpenSM, whose file /etc/default/opensm asks for all ports.
grep -q '^PORTS=ALL' /etc/default/opensm || fail "PORTS of OpenSM"
rm -f /var/log/opensm.0x*.log
dpkg --install /check/torus-sm.deb
package_is torus-sm installed
package_is opensm config-files
is torus-sm-ports.service ActiveState active
is torus-sm.service ActiveState inactive
for port in $first $second; do
	is "torus-sm@$port.service" ActiveState active
	until_ok 20 log_has $port "SUBNET UP"
	until_ok 20 sh -c "systemctl show --property StatusText torus-sm@$port | grep -q MASTER"
	test -f "/var/cache/opensm/$port/guid2lid" || fail "no guid2lid of $port"
done
[ "$(systemctl is-enabled torus-sm-ports.service)" = enabled ] || fail "not enabled"
opensm --version | grep -qF "($(torus-sm --version))" || fail "opensm is not torus-sm"
grep -q '^PORTS=ALL' /etc/default/torus-sm-ports || fail "the ports are not kept"

journalctl --sync
lines=$(journalctl --quiet --output cat --unit "torus-sm@$first" | grep -c "SUBNET UP")
[ "$lines" = 1 ] || fail "the journal has SUBNET UP $lines times"

# Reload, rotation of the log, restart after a crash.
echo 'sweep_interval 7' >/etc/opensm/opensm.conf
systemctl reload "torus-sm@$first"
until_ok 20 log_has $first "these keys took effect: sweep_interval 7"
logrotate --force --state /run/state /etc/logrotate.d/infiniband-torus-sm
systemctl reload "torus-sm@$first"
until_ok 20 log_has $first "configuration read again"
log_has $first "Entering MASTER" && fail "the log was not opened again"
systemctl kill --signal KILL "torus-sm@$first"
is "torus-sm@$first" NRestarts 1
until_ok 20 log_has $first "SUBNET UP"

# A configuration error is not repeated.
echo 'OPTIONS="--nonsense"' >"/etc/default/torus-sm.$second"
systemctl restart "torus-sm@$second" && fail "a wrong option is accepted"
sleep 1
is "torus-sm@$second.service" ActiveState failed
is "torus-sm@$second.service" NRestarts 0
is "torus-sm@$second.service" ExecMainStatus 2
rm "/etc/default/torus-sm.$second"

# OpenSM's name of the unit restarts all ports; the watchdog ends a hung daemon.
systemctl restart opensm
is "torus-sm@$first.service" ActiveState active
is "torus-sm@$second.service" ActiveState active
mkdir "/etc/systemd/system/torus-sm@$second.service.d"
printf '[Service]\nWatchdogSec=1\n' >"/etc/systemd/system/torus-sm@$second.service.d/fast.conf"
systemctl daemon-reload
systemctl restart "torus-sm@$second"
sleep 2
is "torus-sm@$second.service" NRestarts 0
systemctl kill --signal STOP "torus-sm@$second"
is "torus-sm@$second" NRestarts 1
is "torus-sm@$second.service" ActiveState active

# Upgrade: the daemons run again, and the administrator's files stay.
echo 'OPTIONS="-p 3"' >/etc/default/torus-sm
before=$(systemctl show --value --property MainPID "torus-sm@$first")
dpkg --install /check/torus-sm.deb
[ "$(systemctl show --value --property MainPID "torus-sm@$first")" != "$before" ] || fail "no restart"
is "torus-sm@$first.service" ActiveState active
until_ok 20 sh -c "systemctl show --property StatusText torus-sm@$first | grep -q MASTER"
grep -q '"-p 3"' /etc/default/torus-sm || fail "the options were replaced"

# The files of OpenSM may go; its ports stay managed.
dpkg --purge opensm
test -e /etc/default/opensm && fail "OpenSM left its file"
systemctl restart torus-sm-ports
is "torus-sm@$second.service" ActiveState active
[ "$(systemctl is-enabled torus-sm-ports.service)" = enabled ] || fail "not enabled without OpenSM"

# Remove: nothing runs; purge: nothing is left.
dpkg --remove torus-sm
for unit in torus-sm-ports "torus-sm@$first" "torus-sm@$second"; do
	systemctl is-active --quiet $unit && fail "$unit runs on"
done
dpkg --purge torus-sm
package_is torus-sm ""
for name in /etc /lib/systemd /usr/sbin /usr/lib /usr/share /var/lib/systemd; do
	found=$(find "$name" \( -name '*torus-sm*' -o -name 'opensm*' \) -not -path '*.service.d*' \
		-not -path '/etc/opensm*' -not -path '*/rust*')
	[ -z "$found" ] || fail "left: $found"
done
echo "all checks passed"
