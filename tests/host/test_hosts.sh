# Several hosts through a stand-in for ssh, --watch, --job, the report's form.
set -eu
exec python3 tests/host/hosts.py "$1"
