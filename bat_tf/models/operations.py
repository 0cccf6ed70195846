"""The operations that a SavedModel may hold without being trusted.

A list of what is allowed, and not of what is forbidden: TensorFlow has 1,400 operations
and gets more, among them such as look harmless and reach outside (`PrintV2` writes to
any file that it is told, `DecodeProtoV2` and `ImmutableConst` read one). What is here
computes from its inputs, or keeps variables and tables in memory. It neither reads nor
writes files, runs Python, calls other machines, nor ends the process: all that an
export of this library holds, and what other models of text in Keras usually do.
"""

ALLOWED = frozenset(
    """
    Placeholder PlaceholderWithDefault Const NoOp Identity IdentityN StopGradient
    PreventGradient EnsureShape CheckNumerics CheckNumericsV2 Assert

    PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case
    StatelessCase For Switch Merge Enter Exit NextIteration LoopCond ControlTrigger

    VarHandleOp VarIsInitializedOp ReadVariableOp DisableCopyOnRead AssignVariableOp
    AssignAddVariableOp AssignSubVariableOp VariableShape ResourceGather
    ResourceGatherNd ResourceScatterAdd ResourceScatterUpdate DestroyResourceOp

    HashTableV2 MutableHashTableV2 AnonymousHashTable AnonymousMutableHashTable
    InitializeTableV2 LookupTableFindV2 LookupTableSizeV2 LookupTableInsertV2
    LookupTableImportV2 LookupTableExportV2 LookupTableRemoveV2

    TensorListConcat TensorListConcatV2 TensorListElementShape TensorListFromTensor
    TensorListGather TensorListGetItem TensorListLength TensorListPopBack
    TensorListPushBack TensorListReserve TensorListResize TensorListScatter
    TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack
    EmptyTensorList TensorArrayV3 TensorArrayReadV3 TensorArrayWriteV3
    TensorArrayGatherV3 TensorArrayScatterV3 TensorArraySizeV3 TensorArrayConcatV3
    TensorArraySplitV3 TensorArrayCloseV3

    Abs Acos Acosh Add AddN AddV2 Asin Asinh Atan Atan2 Atanh BesselI0e BesselI1e
    BitwiseAnd BitwiseOr BitwiseXor Ceil ClipByValue Cos Cosh Digamma Div DivNoNan Elu
    Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Inv
    Invert IsFinite IsInf IsNan LeakyRelu LeftShift Less LessEqual Lgamma Log Log1p
    LogSoftmax LogicalAnd LogicalNot LogicalOr Maximum Minimum Mod Mul MulNoNan Ndtri
    Neg NextAfter NotEqual Pow RealDiv Reciprocal Relu Relu6 RightShift Rint Round Rsqrt
    Selu Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Square SquaredDifference
    Sub Tan Tanh TruncateDiv TruncateMod Xdivy Xlog1py Xlogy

    All Any ArgMax ArgMin Bincount Bucketize Cumprod Cumsum CumulativeLogsumexp
    DenseBincount EuclideanNorm L2Loss Max Mean Min Prod SegmentMax SegmentMaxV2
    SegmentMean SegmentMin SegmentMinV2 SegmentProd SegmentProdV2 SegmentSum
    SegmentSumV2 SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum Sum
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum

    BatchMatMul BatchMatMulV2 BatchMatMulV3 Cholesky Cross Einsum MatMul MatrixBandPart
    MatrixDiag MatrixDiagPartV3 MatrixDiagV3 MatrixInverse MatrixSetDiagV3 Qr
    SparseMatMul SparseTensorDenseMatMul Svd

    InplaceAdd InplaceSub InplaceUpdate BatchToSpaceND Bitcast BroadcastArgs
    BroadcastTo Cast Concat ConcatV2 Diag DiagPart DynamicPartition DynamicStitch
    Empty ExpandDims Fill Gather GatherNd GatherV2 InTopKV2 InvertPermutation
    LinSpace ListDiff LowerBound MirrorPad NthElement OneHot OnesLike Pack Pad PadV2
    ParallelDynamicStitch Range Rank Reshape Reverse ReverseSequence ReverseV2 Roll
    ScatterNd Select SelectV2 Shape ShapeN Size Slice SpaceToBatchND Split SplitV
    Squeeze StridedSlice TensorScatterAdd TensorScatterMax TensorScatterMin
    TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile TopK TopKV2
    Transpose Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack
    UnravelIndex UpperBound Where ZerosLike

    AvgPool AvgPool3D BiasAdd Conv2D Conv2DBackpropInput Conv3D
    DepthwiseConv2dNative FusedBatchNormV3 LRN MaxPool MaxPool3D MaxPoolV2 CudnnRNN
    CudnnRNNV2 CudnnRNNV3 LSTMBlockCell BlockLSTM BlockLSTMV2 GRUBlockCell

    Dequantize FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel
    QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeV2

    RaggedBincount RaggedGather RaggedRange RaggedTensorFromVariant RaggedTensorToSparse
    RaggedTensorToTensor RaggedTensorToVariant SparseAdd SparseConcat SparseCross
    SparseFillEmptyRows SparseReduceSum SparseReorder SparseReshape SparseSlice
    SparseSplit SparseTensorDenseAdd SparseToDense DenseToSparseSetOperation
    SparseBincount DenseCountSparseOutput RaggedCountSparseOutput

    AsString DecodeBase64 EncodeBase64 DecodeRaw EditDistance ReduceJoin
    RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace StringFormat
    StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2
    StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
    StringToNumber StringUpper Substr UnicodeDecode UnicodeDecodeWithOffsets
    UnicodeEncode UnicodeScript UnicodeTranscode UnsortedSegmentJoin
    FastBertNormalize FastWordpieceDetokenize FastWordpieceTokenizeWithOffsets
    NormalizeUTF8 NormalizeUTF8WithOffsetsMap RegexSplitWithOffsets
    UnicodeScriptTokenizeWithOffsets WhitespaceTokenizeWithOffsets
    WhitespaceTokenizeWithOffsetsV2 WordpieceTokenizeWithOffsets CaseFoldUTF8

    Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt
    StatelessMultinomial StatelessRandomGetAlg StatelessRandomGetKeyCounter
    StatelessRandomNormalV2 StatelessRandomUniform StatelessRandomUniformFullIntV2
    StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessShuffle
    StatelessTruncatedNormalV2 TruncatedNormal RngReadAndSkip StatefulStandardNormalV2
    StatefulUniform StatefulUniformInt
    """.split()
)
# Those of them that call functions, which their attributes name.
CALLS = frozenset(
    "PartitionedCall StatefulPartitionedCall If StatelessIf While StatelessWhile Case "
    "StatelessCase For".split()
)
# Every SavedModel has them, in the two functions that save and restore its variables.
CHECKPOINT = frozenset("SaveV2 RestoreV2 MergeV2Checkpoints ShardedFilename".split())
