# shellcheck shell=bash
# What the dashboard's page needs: Node.js, the type checker of TypeScript and axe-core in .local/web, and chromium.

TYPESCRIPT_VERSION=5.9.3
AXE_VERSION=4.11.0

# setup_node: node and npm of the system, or of the distribution.
setup_node() {
	have node && have npm && return 0
	{ apt_install nodejs npm && have node && have npm; } ||
		die "no node and npm command in PATH; the type check of the dashboard needs them" "apt-get install nodejs npm"
}

# setup_web: .local/web/node_modules. Nothing of it is part of the page.
setup_web() {
	local dest=$LOCAL/web stamp
	stamp=$(stamp_of "$TYPESCRIPT_VERSION" "$AXE_VERSION")
	if stamp_ok web "$stamp" && [ -x "$dest/node_modules/.bin/tsc" ] && [ -f "$dest/node_modules/axe-core/axe.min.js" ]; then
		return 0
	fi
	setup_node
	say "setup: typescript $TYPESCRIPT_VERSION and axe-core $AXE_VERSION into ${dest#"$ROOT"/}"
	mkdir -p "$dest"
	quietly web.log npm install --prefix "$dest" --no-save --no-audit --no-fund --ignore-scripts \
		"typescript@$TYPESCRIPT_VERSION" "axe-core@$AXE_VERSION" ||
		die "typescript and axe-core could not be installed" "read the lines above; the npm registry must be reachable the first time"
	stamp_put web "$stamp"
}

# setup_chromium: the browser of tests/browser.
setup_chromium() {
	have chromium && return 0
	{ apt_install chromium && have chromium; } ||
		die "no chromium command in PATH; the tests of the dashboard need it" "apt-get install chromium"
}
