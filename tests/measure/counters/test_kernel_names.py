from __future__ import annotations

import pytest

from warpsmith.measure.counters.kernel_names import short_name

#: As CUPTI tells it and as ncu does, of one function.
FILLS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >"
    "(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, "
    "std::array<char *, (unsigned long)1>>(int, T2, T3)",
)
SUMS = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
    "unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)",
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "void at::native::sum_functor<float, float, float>::operator ()(at::TensorIterator &)::[lambda(float, float) "
    "(instance 1)]>, unsigned int, float, (int)4, (int)4>>(T3)",
)
COPIES = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<"
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
    "{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int, at::native::x)"
)


@pytest.mark.parametrize("kernel", FILLS)
def test_a_kernel_of_torch_is_named_by_what_it_computes(kernel: str) -> None:
    assert short_name(kernel) == "vectorized_elementwise_kernel<FillFunctor<float>>"


@pytest.mark.parametrize("kernel", SUMS)
def test_a_functor_inside_of_others_is_the_one_that_is_told(kernel: str) -> None:
    assert short_name(kernel) == "reduce_kernel<sum_functor>"


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        (COPIES, "elementwise_kernel<direct_copy_kernel_cuda>"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<c10::BFloat16, c10::BFloat16, "
            "c10::BFloat16, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
            "vectorized_elementwise_kernel<MulFunctor<float>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::BFloat16>, T3>(int, T2)",
            "vectorized_elementwise_kernel<FillFunctor<BFloat16>>",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_64x3_tn_align8>(T1::Params)",
            "Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_64x3_tn_align8>",
        ),
        (
            "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float, float, float, "
            "at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)",
            "cunn_SoftMaxForward<SoftMaxForwardEpilogue>",
        ),
        (
            "void at::native::<unnamed>::cunn_SoftMaxForward<(int)8, float, float, float, "
            "at::native::<unnamed>::SoftMaxForwardEpilogue>(T4 *, const T2 *, int)",
            "cunn_SoftMaxForward<SoftMaxForwardEpilogue>",
        ),
        ("vector_add(float const*, float*)", "vector_add"),
        ("void scale<(int)4, (bool)1>(float *)", "scale"),
        ("void broken<at::native::FillFunctor<float>", "broken<FillFunctor<float>>"),
    ],
)
def test_namespaces_and_parameters_go(kernel: str, short: str) -> None:
    assert short_name(kernel) == short


@pytest.mark.parametrize(
    "kernel",
    [
        "_rms_norm_backward_kernel",
        "triton_red_fused_add_mul_0",
        "nvjet_tst_128x256_64x4_1x2_h_bz_coopB_TNT",
        "Memset (Device)",
        "Memcpy DtoD (Device -> Device)",
        "a launch that cannot be read",
        "_ZN2at6native13reduce_kernelEv",
        "",
    ],
)
def test_what_is_no_demangled_function_stays_what_it_is(kernel: str) -> None:
    assert short_name(kernel) == kernel
