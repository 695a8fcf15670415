# SPDX-License-Identifier: Apache-2.0
# The keeper: runs on the board for as long as a connection lasts, and removes the agent's folder at
# its end. rtgauge.target.ssh.connection sends these lines joined to one, without comments, because
# the login shell may be one that takes no line breaks between quotes. So each line ends where a
# blank may follow. The only argument is the token of this connection.
#
# First it prints which machine this is, as whom it runs, whether sudo works without a password
# (not as root), and the folders into which the agent may go. Then it reads lines: the name of the
# agent's folder, the name of another one in its place, a number of ticks, or "end". An input that
# ends without "end" is the host's end if something can still be written to it, else the
# connection's. After a lost connection an agent behind its spool needs its folder, and the keeper
# of another connection may take it over within that number of ticks of 2 s. Only folders with
# rtgauge's names are removed.
trap "" HUP INT TERM PIPE; token=$1; ticks=0; folder=;
remove() { case "$1" in /rtgauge-????????????????|/*/rtgauge-????????????????) rm -rf "$1";; esac; };
mine() { [ ! -e "$folder/keeper" ] || { read -r owner <"$folder/keeper"; [ "$owner" = "$token" ]; }; };
spooled() { set -- "$folder"/spool*; [ -S "$1" ]; };

echo rtgauge-keeper; uname -m; cat /proc/sys/kernel/random/boot_id; who=$(cat /proc/self/status);
echo "$who"; case "$who" in *Uid:?0?0?*);; *) sudo -n true >/dev/null 2>&1 && echo sudo;; esac;
echo rtgauge-keeper;
for base in "$TMPDIR" /tmp /dev/shm /run /var/tmp "$HOME"; do echo "$base"; done;
echo rtgauge-keeper;

while read -r line; do
	case "$line" in
		[0-9]*) ticks=$line;;
		end) mine && remove "$folder"; exit;;
		*) remove "$folder"; folder=$line;;
	esac;
done;

sleep 1;
echo 2>/dev/null ||
	while [ "$ticks" -gt 0 ] && mine && spooled; do sleep 2; ticks=$((ticks-1)); done;
mine && remove "$folder"
