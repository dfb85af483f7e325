package parity

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// samples are lines of the code samples and settings of the libraries, by the page that has them next to ours.
var samples = map[string]string{
	"from-dask-cuda.md": `
DASK_UCX__CUDA_COPY=True
DASK_UCX__TCP=True
DASK_UCX__NVLINK=True
DASK_UCX__INFINIBAND=True
DASK_UCX__RDMACM=True
DASK_UCX__NET_DEVICES=mlx5_0:1
DASK_UCX__NET_DEVICES=enp1s0f0
DASK_RMM__POOL_SIZE=1GB
DASK_UCX__NET_DEVICES=mlx5_0:1 dask-scheduler --protocol ucx --interface ib0
DASK_UCX__NVLINK=True dask-scheduler --protocol ucx --interface eth0
--disable-tcp-over-ucx
--disable-nvlink
--disable-infiniband
--net-devices="auto" --rmm-pool-size="30GB"
dask-cuda-worker ucx://SCHEDULER_IB0_IP:8786
os.environ["DASK_UCX__NET_DEVICES"] = "mlx5_0:1"
client = Client("ucx://SCHEDULER_IB0_IP:8786")
from dask_cuda.initialize import initialize
ucx_net_devices="auto"
rmm_pool_size="24GB"`,
	"from-distributed-ucxx.md": `
mamba install -c conda-forge distributed-ucxx
pip install distributed-ucxx-cu13
pip install distributed-ucxx-cu12
distributed-ucxx-schema.yaml
distributed-ucxx: tcp: true nvlink: true infiniband: false cuda-copy: true create-cuda-context: true
distributed: comm: ucx: tcp: true nvlink: true infiniband: false cuda-copy: true create-cuda-context: true
export DASK_DISTRIBUTED_UCXX__RMM__POOL_SIZE=1GB
export DASK_DISTRIBUTED__COMM__UCX__NVLINK=true
export DASK_DISTRIBUTED__RMM__POOL_SIZE=1GB
dask.config.set({ "distributed-ucxx.tcp": True,
dask.config.set({ "distributed.comm.ucx.tcp": True,
client = Client("ucxx://scheduler-address:8786")
dask scheduler --protocol ucxx
dask worker ucxx://scheduler-address:8786`,
	"from-ucx-py.md": `
lf = ucp.create_listener(server, port=12345)
host = ucp.get_address(ifname='eth0')
cupy.testing.assert_array_equal(msg, resp)
msg = numpy.zeros(10000, dtype='f8')
await ep.recv(tag_msg)
await ep.am_send(msg)
ucp.register_am_allocator(lambda n: cupy.empty(n, dtype='u1'), 'cuda')
am_msg = await ep.am_recv()
conda create -n ucx -c conda-forge -c jakirkham/label/ucx-new
git clone git@github.com:rapidsai/cudf.git
git clone https://github.com/dask/dask.git
git clone https://github.com:dask/distributed.git
conda install -c conda-forge automake make cmake libtool pkg-config pytest-asyncio cupy distributed
conda install -c rapidsai-nightly -c nvidia -c conda-forge dask-cuda
../configure --prefix=$CONDA_PREFIX --enable-debug --with-cuda=$CUDA_HOME --enable-mt
python setup.py build_ext --inplace
pytest -v
export UCX_TLS=tcp,sockcm,cuda_copy,cuda_ipc export UCX_SOCKADDR_TLS_PRIORITY=sockcm export UCXPY_IFNAME="eth0"
export UCX_TLS=sockcm,cuda_copy,cuda_ipc export UCX_SOCKADDR_TLS_PRIORITY=sockcm export UCXPY_IFNAME="ib0"
export UCX_TLS=tcp,sockcm export UCX_SOCKADDR_TLS_PRIORITY=sockcm export UCXPY_IFNAME="eno0"
--ipc="shareable"
--ipc="container:NAME"
--ipc="host"`,
	"from-raft-dask.md": `
conda install -c nvidia nccl
conda install cudatoolkit==10.0.130
cp libcumlcomms.so $CONDA_PREFIX/lib
CUML_HOME
python setup.py install
jupyter notebook
demo.ipynb
LocalCUDACluster
uniqueId`,
}

var spaces = regexp.MustCompile(`\s+`)

// The pages for users of other libraries have the samples and settings of their documents.
func TestSamples(t *testing.T) {
	for page, list := range samples {
		text, err := os.ReadFile(filepath.Join(root, "docs", "guide", page))
		if err != nil {
			t.Fatal(err)
		}
		// Samples of several lines are compared as one.
		flat := spaces.ReplaceAllString(string(text), " ")
		for sample := range strings.Lines(strings.TrimSpace(list)) {
			if sample = strings.TrimSpace(sample); !strings.Contains(flat, sample) {
				t.Errorf("%s: no sample %q", page, sample)
			}
		}
	}
}
