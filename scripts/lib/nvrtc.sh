# shellcheck shell=bash
# The NVRTC that makes the PTX of internal/device/kernels, unpacked under .local/nvrtc. It is fixed: another release would make
# other PTX, and a newer one would lock older drivers out.

NVRTC_PIN='nvidia-cuda-nvrtc-cu12==12.0.140 --hash=sha256:8e94e991d85c422de4da87bdc7472fdc1364367bd4aace7000b559cd33122071'

setup_nvrtc() {
	local dest=$LOCAL/nvrtc stamp tmp
	stamp=$(stamp_of "$NVRTC_PIN")
	if stamp_ok nvrtc "$stamp" && [ -e "$dest/lib/libnvrtc.so.12" ]; then
		return 0
	fi
	say "setup: ${NVRTC_PIN%% *} into ${dest#"$ROOT"/}"
	need_pip
	tmp=$(mktemp -d "$LOCAL/.nvrtc.XXXXXX")
	printf '%s\n' "$NVRTC_PIN" >"$tmp/pin.txt"
	if ! download "$tmp" --require-hashes -r "$tmp/pin.txt"; then
		rm -rf "$tmp"
		die "NVRTC could not be fetched with its pinned checksum" "the Python package index must be reachable the first time"
	fi
	"$PYTHON" -m zipfile -e "$tmp"/*.whl "$tmp"
	rm -rf "$dest"
	mv "$tmp/nvidia/cuda_nvrtc" "$dest"
	rm -rf "$tmp"
	stamp_put nvrtc "$stamp"
}
